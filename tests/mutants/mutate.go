package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/constant"
	"go/printer"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/tools/go/ast/astutil"
	"golang.org/x/tools/go/packages"
)

// A mutant is one small change of the program.
type mutant struct {
	number   int // from 1
	file     string
	line     int
	function string
	kind     kind
	text     string // what is changed, in one line
	verdict  verdict
}

func (m *mutant) String() string {
	return fmt.Sprintf("%s:%d: %s: %s: %s", m.file, m.line, m.function, m.kind, m.text)
}

type kind string

const (
	negated   kind = "condition negated"
	boundary  kind = "boundary moved"
	dropped   kind = "operand ignored"
	constants kind = "constant plus 1"
	removed   kind = "statement removed"
	swallowed kind = "error swallowed"
)

// helper is the file that a mutated package gets: which mutant is on, and which ones were come by.
const helper = `package %s

import (
	"os"
	"strconv"
	"syscall"
)

var activeMutant__, reachedMutants__ = mutants__()

func mutants__() (int, []byte) {
	n, _ := strconv.Atoi(os.Getenv("VFIX_MUTANT"))
	var reached []byte
	if name := os.Getenv("VFIX_MUTANTS_REACHED"); name != "" {
		if fd, err := syscall.Open(name, syscall.O_RDWR|syscall.O_CLOEXEC, 0); err == nil {
			reached, _ = syscall.Mmap(fd, 0, %d, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
			syscall.Close(fd)
		}
	}
	return n, reached
}

func mutant__(n int) bool {
	if reachedMutants__ != nil {
		reachedMutants__[n] = 1
	}
	return n == activeMutant__
}

func mutated__[T ~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr](n int, v T) T {
	if mutant__(n) {
		return v + 1
	}
	return v
}
`

// overlay is the file in the working directory for go build -overlay.
const overlay = "overlay.json"

// mutate puts all mutants of a package into copies of its files in work.
func mutate(pattern, work string) (path string, mutants []*mutant, err error) {
	config := &packages.Config{Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
		packages.NeedTypes | packages.NeedTypesSizes | packages.NeedSyntax | packages.NeedTypesInfo | packages.NeedModule}
	loaded, err := packages.Load(config, pattern)
	if err != nil {
		return "", nil, err
	}
	if len(loaded) != 1 || len(loaded[0].Errors) > 0 || loaded[0].Module == nil {
		return "", nil, fmt.Errorf("%s: not one package that compiles: %v", pattern, loaded)
	}
	pkg := loaded[0]
	m := &mutator{fset: pkg.Fset, info: pkg.TypesInfo, pkg: pkg.Types, module: pkg.Module.Dir, texts: map[ast.Expr]string{}}
	replace := map[string]string{}
	put := func(name string, text []byte) error {
		replace[name] = filepath.Join(work, filepath.Base(name))
		return os.WriteFile(replace[name], text, 0o644)
	}
	for i, file := range pkg.Syntax {
		var text bytes.Buffer
		if err := m.rewrite(file, &text); err != nil {
			return "", nil, err
		}
		if err := put(pkg.CompiledGoFiles[i], text.Bytes()); err != nil {
			return "", nil, err
		}
	}
	if err := put(filepath.Join(filepath.Dir(pkg.CompiledGoFiles[0]), "mutants__.go"), fmt.Appendf(nil, helper, pkg.Name, len(m.found)+1)); err != nil {
		return "", nil, err
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", nil, err
	}
	return pkg.PkgPath, m.found, os.WriteFile(filepath.Join(work, overlay), text, 0o644)
}

// mutator rewrites the files of one package.
type mutator struct {
	fset     *token.FileSet
	info     *types.Info
	pkg      *types.Package
	module   string
	found    []*mutant
	function string
	results  []*types.Tuple      // of the functions around, the innermost last
	texts    map[ast.Expr]string // of conditions with operands, which are rewritten one by one
}

// rewrite puts the mutants into a file and prints it, with the comments before declarations: some are directives.
func (m *mutator) rewrite(file *ast.File, to *bytes.Buffer) error {
	for _, group := range file.Comments {
		if group.Pos() < file.Package && strings.HasPrefix(group.List[0].Text, "//go:build") {
			fmt.Fprintf(to, "%s\n\n", group.List[0].Text)
		}
	}
	file.Comments, file.Doc = nil, nil
	for _, d := range file.Decls {
		if d, ok := d.(*ast.FuncDecl); ok && d.Body != nil {
			m.function = d.Name.Name
			if d.Recv != nil && len(d.Recv.List) > 0 {
				m.function = strings.TrimPrefix(types.ExprString(d.Recv.List[0].Type), "*") + "." + m.function
			}
			m.results = []*types.Tuple{m.info.Defs[d.Name].Type().(*types.Signature).Results()}
			astutil.Apply(d.Body, m.enter, m.leave)
		}
	}
	return printer.Fprint(to, m.fset, file)
}

// add notes a mutant of a node, and returns the call that says whether it is on.
func (m *mutator) add(k kind, n ast.Node, text string) ast.Expr {
	at := m.fset.Position(n.Pos())
	name, err := filepath.Rel(m.module, at.Filename)
	if err != nil {
		name = at.Filename
	}
	m.found = append(m.found, &mutant{number: len(m.found) + 1, file: name, line: at.Line, function: m.function, kind: k, text: text})
	return call("mutant__", &ast.BasicLit{Kind: token.INT, Value: strconv.Itoa(len(m.found))})
}

func call(name string, args ...ast.Expr) ast.Expr {
	return &ast.CallExpr{Fun: ast.NewIdent(name), Args: args}
}

func binary(x ast.Expr, op token.Token, y ast.Expr) ast.Expr {
	return &ast.ParenExpr{X: &ast.BinaryExpr{X: x, Op: op, Y: y}}
}

// text is a node in one line, shortened.
func (m *mutator) text(n ast.Node) string {
	var b bytes.Buffer
	if err := printer.Fprint(&b, m.fset, n); err != nil {
		return err.Error()
	}
	s := strings.Join(strings.Fields(b.String()), " ")
	if r := []rune(s); len(r) > 90 {
		s = string(r[:60]) + " … " + string(r[len(r)-27:])
	}
	return s
}

// enter is called before the parts of a node are rewritten: it makes the mutants whose text is that of the source,
// and returns whether parts are looked at.
func (m *mutator) enter(c *astutil.Cursor) bool {
	switch n := c.Node().(type) {
	case *ast.FuncLit:
		m.results = append(m.results, m.info.Types[n].Type.(*types.Signature).Results())
	case *ast.GenDecl:
		return n.Tok == token.VAR
	case *ast.ArrayType:
		return false
	case ast.Stmt:
		if c.Index() >= 0 {
			m.statement(c, n)
		}
	case ast.Expr:
		return m.expression(c, n)
	}
	return true
}

func (m *mutator) leave(c *astutil.Cursor) bool {
	if _, ok := c.Node().(*ast.FuncLit); ok {
		m.results = m.results[:len(m.results)-1]
	}
	return true
}

// statement makes the mutants of one statement of a list.
func (m *mutator) statement(c *astutil.Cursor, s ast.Stmt) {
	switch s := s.(type) {
	case *ast.ExprStmt:
		if call, ok := s.X.(*ast.CallExpr); !ok || unseen(call, false) {
			return
		}
	case *ast.DeferStmt:
		if unseen(s.Call, true) {
			return
		}
	case *ast.AssignStmt:
		if s.Tok == token.DEFINE || onlyBlanks(s.Lhs) {
			return
		}
	case *ast.IncDecStmt, *ast.SendStmt, *ast.GoStmt:
	case *ast.BranchStmt:
		if s.Tok != token.CONTINUE && s.Tok != token.BREAK {
			return
		}
	case *ast.ReturnStmt:
		m.swallow(c, s)
		return
	default:
		return
	}
	off := &ast.UnaryExpr{Op: token.NOT, X: m.add(removed, s, m.text(s))}
	c.Replace(&ast.IfStmt{Cond: off, Body: &ast.BlockStmt{List: []ast.Stmt{s}}})
}

func onlyBlanks(list []ast.Expr) bool {
	for _, e := range list {
		if id, ok := e.(*ast.Ident); !ok || id.Name != "_" {
			return false
		}
	}
	return true
}

// unseen are calls whose removal changes no result: locks, and what is closed when all is done.
// panic ends a path that the compiler must see ended.
func unseen(call *ast.CallExpr, deferred bool) bool {
	switch fun := call.Fun.(type) {
	case *ast.Ident:
		return fun.Name == "panic"
	case *ast.SelectorExpr:
		switch fun.Sel.Name {
		case "Lock", "Unlock", "RLock", "RUnlock", "KeepAlive", "LockOSThread", "UnlockOSThread":
			return true
		case "Close":
			return deferred
		}
	}
	return false
}

var errorType = types.Universe.Lookup("error").Type()

// swallow puts a return of nil before a return of an error.
func (m *mutator) swallow(c *astutil.Cursor, s *ast.ReturnStmt) {
	results := m.results[len(m.results)-1]
	n := results.Len()
	if n == 0 || len(s.Results) == 0 || !types.Identical(results.At(n-1).Type(), errorType) {
		return
	}
	last := s.Results[len(s.Results)-1]
	if m.info.Types[last].IsNil() {
		return
	}
	on := m.add(swallowed, s, m.text(s))
	var names, others []ast.Expr
	for i := range n - 1 {
		names = append(names, ast.NewIdent(fmt.Sprintf("mutant%d__", i)))
	}
	others = append(others, names...)
	if len(s.Results) == n {
		others = append(others[:0], s.Results[:n-1]...)
		names = nil
		for range n - 1 {
			names = append(names, ast.NewIdent("_"))
		}
	}
	body := []ast.Stmt{&ast.ReturnStmt{Results: append(others, ast.NewIdent("nil"))}}
	switch {
	case len(s.Results) < n: // return f()
		body = append([]ast.Stmt{&ast.AssignStmt{Lhs: append(names, ast.NewIdent("_")), Tok: token.DEFINE, Rhs: s.Results}}, body...)
	default: // what the last one does is done
		body = append([]ast.Stmt{&ast.AssignStmt{Lhs: []ast.Expr{ast.NewIdent("_")}, Tok: token.ASSIGN, Rhs: []ast.Expr{last}}}, body...)
	}
	c.InsertBefore(&ast.IfStmt{Cond: on, Body: &ast.BlockStmt{List: body}})
}

// expression returns whether the parts of e are looked at. Calls that only make words are not.
func (m *mutator) expression(c *astutil.Cursor, e ast.Expr) bool {
	if call, ok := e.(*ast.CallExpr); ok {
		if s, ok := call.Fun.(*ast.SelectorExpr); ok {
			if id, ok := s.X.(*ast.Ident); ok && (id.Name == "fmt" || id.Name == "errors") {
				return false
			}
		}
	}
	if !m.isValue(c) {
		return true
	}
	tv, ok := m.info.Types[e]
	switch {
	case !ok || tv.IsType():
		return !ok
	case tv.Value != nil:
		m.constant(c, e, tv)
		return false
	case types.Identical(tv.Type, types.Typ[types.Bool]) || types.Identical(tv.Type, types.Typ[types.UntypedBool]):
		m.condition(c, e)
	}
	return true
}

// isValue says whether a node is evaluated, and may be replaced: not what is assigned to, the key of a literal, a name
// of a field, or the operand of &.
func (m *mutator) isValue(c *astutil.Cursor) bool {
	switch p := c.Parent().(type) {
	case *ast.AssignStmt:
		return c.Name() == "Rhs"
	case *ast.IncDecStmt, *ast.Field, *ast.ExprStmt, *ast.GoStmt, *ast.DeferStmt:
		return false
	case *ast.RangeStmt:
		return c.Name() == "X"
	case *ast.KeyValueExpr:
		return c.Name() == "Value"
	case *ast.SelectorExpr:
		return c.Name() == "X"
	case *ast.UnaryExpr:
		return p.Op != token.AND
	}
	return true
}

// condition negates a condition, or ignores it as an operand of another; a negated operand is much the same as one
// that is ignored.
func (m *mutator) condition(c *astutil.Cursor, e ast.Expr) {
	p, isBinary := c.Parent().(*ast.BinaryExpr)
	isOperand := isBinary && (p.Op == token.LAND || p.Op == token.LOR)
	u, isUnary := c.Parent().(*ast.UnaryExpr)
	_, inParens := c.Parent().(*ast.ParenExpr)
	changed := e
	if b, ok := e.(*ast.BinaryExpr); ok {
		m.texts[e] = m.text(e)
		changed = m.boundary(b)
	}
	switch {
	case isOperand && p.Op == token.LAND:
		changed = binary(m.add(dropped, e, m.text(e)+" in "+m.texts[p]), token.LOR, changed)
	case isOperand:
		changed = binary(&ast.UnaryExpr{Op: token.NOT, X: m.add(dropped, e, m.text(e)+" in "+m.texts[p])}, token.LAND, changed)
	case isUnary && u.Op == token.NOT || inParens:
	default:
		changed = binary(&ast.ParenExpr{X: changed}, token.NEQ, m.add(negated, e, m.text(e)))
	}
	if changed != e {
		c.Replace(changed)
	}
}

// boundary moves a comparison by one, if both sides may be computed twice.
func (m *mutator) boundary(e *ast.BinaryExpr) ast.Expr {
	switch e.Op {
	case token.LSS, token.GEQ, token.GTR, token.LEQ:
	default:
		return e
	}
	if !m.isPure(e) {
		return e
	}
	same := &ast.BinaryExpr{X: &ast.ParenExpr{X: e.X}, Op: token.EQL, Y: &ast.ParenExpr{X: e.Y}}
	return binary(&ast.ParenExpr{X: e}, token.NEQ, binary(m.add(boundary, e, m.text(e)), token.LAND, same))
}

func (m *mutator) isPure(e ast.Expr) bool {
	pure := true
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			id, ok := n.Fun.(*ast.Ident)
			if !m.info.Types[n.Fun].IsType() && !(ok && (id.Name == "len" || id.Name == "cap")) {
				pure = false
			}
		case *ast.FuncLit:
			pure = false
		case *ast.UnaryExpr:
			pure = pure && n.Op != token.ARROW
		}
		return pure
	})
	return pure
}

// constant adds 1 to a whole number, or negates. It leaves out what is made of names of other packages alone, as most
// are flags and numbers of the system, and times, of which a nanosecond more is nothing.
func (m *mutator) constant(c *astutil.Cursor, e ast.Expr, tv types.TypeAndValue) {
	foreign, own := false, false
	ast.Inspect(e, func(n ast.Node) bool {
		switch n.(type) {
		case *ast.SelectorExpr:
			foreign = true
			return false
		case *ast.BasicLit, *ast.Ident:
			own = true
		}
		return true
	})
	if foreign && !own {
		return
	}
	name := ""
	switch t := types.Unalias(tv.Type).(type) {
	case *types.Basic:
		name = t.Name()
	case *types.Named:
		if t.Obj().Pkg() == m.pkg && t.Obj().Parent() == m.pkg.Scope() {
			name = t.Obj().Name()
		}
	}
	b, ok := tv.Type.Underlying().(*types.Basic)
	switch {
	case !ok || name == "":
	case b.Kind() == types.Bool || b.Kind() == types.UntypedBool:
		if name == b.Name() {
			c.Replace(binary(e, token.NEQ, m.add(negated, e, m.text(e))))
		}
	case b.Info()&types.IsInteger != 0 && b.Info()&types.IsUntyped == 0 && tv.Value.Kind() == constant.Int:
		on := m.add(constants, e, m.text(e)).(*ast.CallExpr)
		c.Replace(&ast.CallExpr{Fun: &ast.IndexExpr{X: ast.NewIdent("mutated__"), Index: ast.NewIdent(name)}, Args: []ast.Expr{on.Args[0], e}})
	}
}
