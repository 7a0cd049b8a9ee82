package provenance

// What only the tests of this package see.

const (
	StatementType = statementType
)

var (
	ParseStatement = parseStatement
	ReadStatement  = readStatement
	StatementPath  = statementPath
)
