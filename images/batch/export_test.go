package batch

// What only the tests of this package see.

// Has is has.
func (p Part) Has(i Item) bool { return p.has(i) }

// MinCompacted is minCompacted.
const MinCompacted = minCompacted

var (
	FillTemplate = fillTemplate
	PlainName    = plainName
)
