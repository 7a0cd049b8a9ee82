package lists

// For the tests of this package alone.
var FillTemplate = fillTemplate
