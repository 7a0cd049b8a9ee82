package provenance

// For the tests of this package alone.

const (
	StatementType = statementType
)

var (
	ParseStatement = parseStatement
	ReadStatement  = readStatement
	StatementPath  = statementPath
)
