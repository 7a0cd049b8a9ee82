package patch

// For the tests of this package alone.
const StampMargin = stampMargin
