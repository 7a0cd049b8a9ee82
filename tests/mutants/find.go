package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// A mutant is one small change of the program. Number is its place in this run; Key stays the same as
// long as the function and the changed text do.
type mutant struct {
	Number int
	File   string // below the module
	Line   int
	Func   string
	Kind   kind
	Text   string // what is changed, in one line
	Nth    int    // of equal ones in one function, from 1
	Edits  []insertion
}

// Key names a mutant in the list of equivalent ones: without line numbers, which change all the time.
func (m *mutant) Key() string {
	key := fmt.Sprintf("%s %s: %s: %s", m.File, m.Func, m.Kind, m.Text)
	if m.Nth > 1 {
		key += fmt.Sprintf(" #%d", m.Nth)
	}
	return key
}

func (m *mutant) String() string {
	return fmt.Sprintf("%s:%d: %s: %s: %s", m.File, m.Line, m.Func, m.Kind, m.Text)
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

// An insertion is text put into the source; nothing is ever taken away, and no line is added. Of
// insertions at one place, those that close come first, the smallest span first, then those that
// open, the largest first.
type insertion struct {
	at, from, to int
	closes       bool
	order        int
	text         string
}

// finder walks the functions of one file.
type finder struct {
	fset  *token.FileSet
	info  *types.Info
	pkg   *types.Package
	src   []byte
	file  string
	found []*mutant
	next  int // order of insertions
	fun   string
	// results is the signature of the function whose statements are walked.
	results []*types.Tuple
}

func (f *finder) offset(p token.Pos) int { return f.fset.Position(p).Offset }

func (f *finder) text(n ast.Node) string {
	return string(f.src[f.offset(n.Pos()):f.offset(n.End())])
}

// oneLine shortens a text to what fits a line of a list.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 90 {
		s = string(r[:60]) + " … " + string(r[len(r)-27:])
	}
	return s
}

// add makes a mutant of node: %d in before and after is its number.
func (f *finder) add(k kind, node ast.Node, text, before, after string) {
	m := &mutant{File: f.file, Line: f.fset.Position(node.Pos()).Line, Func: f.fun, Kind: k, Text: oneLine(text)}
	from, to := f.offset(node.Pos()), f.offset(node.End())
	f.next++
	if before != "" {
		m.Edits = append(m.Edits, insertion{at: from, from: from, to: to, order: f.next, text: before})
	}
	if after != "" {
		m.Edits = append(m.Edits, insertion{at: to, from: from, to: to, closes: true, order: f.next, text: after})
	}
	f.found = append(f.found, m)
}

// find lists the mutants of a file.
func find(fset *token.FileSet, info *types.Info, pkg *types.Package, file *ast.File, src []byte, name string) []*mutant {
	f := &finder{fset: fset, info: info, pkg: pkg, src: src, file: name}
	for _, d := range file.Decls {
		d, ok := d.(*ast.FuncDecl)
		if !ok || d.Body == nil {
			continue
		}
		f.fun = d.Name.Name
		if d.Recv != nil && len(d.Recv.List) > 0 {
			t := d.Recv.List[0].Type
			if s, ok := t.(*ast.StarExpr); ok {
				t = s.X
			}
			if x, ok := t.(*ast.IndexExpr); ok {
				t = x.X
			}
			f.fun = f.text(t) + "." + f.fun
		}
		f.function(info.Defs[d.Name].Type().(*types.Signature), d.Body)
	}
	slices.SortStableFunc(f.found, func(a, b *mutant) int { return cmp.Compare(a.Edits[0].from, b.Edits[0].from) })
	return f.found
}

func (f *finder) function(s *types.Signature, body *ast.BlockStmt) {
	f.results = append(f.results, s.Results())
	ast.Inspect(body, f.node)
	f.results = f.results[:len(f.results)-1]
}

// node is called for each node of a function.
func (f *finder) node(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.FuncLit:
		f.function(f.info.Types[n].Type.(*types.Signature), n.Body)
		return false
	case *ast.GenDecl:
		return n.Tok == token.VAR
	case *ast.ArrayType, *ast.IncDecStmt:
		return false
	case *ast.AssignStmt:
		for _, e := range n.Rhs {
			ast.Inspect(e, f.node)
		}
		return false
	case *ast.RangeStmt:
		ast.Inspect(n.X, f.node)
		ast.Inspect(n.Body, f.node)
		return false
	case *ast.BlockStmt:
		f.statements(n.List)
	case *ast.CaseClause:
		f.statements(n.Body)
	case *ast.CommClause:
		f.statements(n.Body)
	case ast.Expr:
		return f.expression(n)
	}
	return true
}

func (f *finder) statements(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.ExprStmt:
			if call, ok := s.X.(*ast.CallExpr); ok && !f.unseen(call, false) {
				f.remove(s)
			}
		case *ast.DeferStmt:
			if !f.unseen(s.Call, true) {
				f.remove(s)
			}
		case *ast.AssignStmt:
			if s.Tok != token.DEFINE && !f.onlyBlanks(s.Lhs) {
				f.remove(s)
			}
		case *ast.IncDecStmt, *ast.SendStmt, *ast.GoStmt:
			f.remove(s)
		case *ast.BranchStmt:
			if s.Tok == token.CONTINUE || s.Tok == token.BREAK {
				f.remove(s)
			}
		case *ast.ReturnStmt:
			f.swallow(s)
		}
	}
}

func (f *finder) remove(s ast.Stmt) {
	f.add(removed, s, f.text(s), "if !mutant__(%d) { ", " }")
}

func (f *finder) onlyBlanks(list []ast.Expr) bool {
	for _, e := range list {
		if id, ok := e.(*ast.Ident); !ok || id.Name != "_" {
			return false
		}
	}
	return true
}

// unseen are calls whose removal changes no result: locks, and what is closed when all is done.
// panic ends a path that the compiler must see ended.
func (f *finder) unseen(call *ast.CallExpr, deferred bool) bool {
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

// swallow makes a return of an error one of nil.
func (f *finder) swallow(s *ast.ReturnStmt) {
	results := f.results[len(f.results)-1]
	n := results.Len()
	if n == 0 || len(s.Results) == 0 || !types.Identical(results.At(n-1).Type(), errorType) {
		return
	}
	last := s.Results[len(s.Results)-1]
	if f.info.Types[last].IsNil() || strings.Contains(f.text(s), "\n") {
		return
	}
	var body string
	if len(s.Results) == n {
		var b bytes.Buffer
		for _, r := range s.Results[:n-1] {
			fmt.Fprintf(&b, "%s, ", f.text(r))
		}
		body = "return " + b.String() + "nil"
		if _, ok := last.(*ast.CallExpr); ok {
			body = "_ = " + f.text(last) + "; " + body
		}
	} else {
		var names []string
		for i := range n - 1 {
			names = append(names, fmt.Sprintf("mutant%d__", i))
		}
		list := strings.Join(names, ", ")
		body = list + ", _ := " + f.text(s.Results[0]) + "; return " + list + ", nil"
	}
	f.add(swallowed, s, f.text(s), "if mutant__(%d) { "+body+" }; ", "")
}

// isMessage are calls of packages that only make words.
func (f *finder) isMessage(call *ast.CallExpr) bool {
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	id, ok := s.X.(*ast.Ident)
	return ok && (id.Name == "fmt" || id.Name == "errors")
}

// expression returns whether the parts of e are looked at.
func (f *finder) expression(e ast.Expr) bool {
	if call, ok := e.(*ast.CallExpr); ok && f.isMessage(call) {
		return false
	}
	if kv, ok := e.(*ast.KeyValueExpr); ok {
		ast.Inspect(kv.Value, f.node)
		return false
	}
	if u, ok := e.(*ast.UnaryExpr); ok && u.Op == token.AND {
		_, ok := u.X.(*ast.CompositeLit)
		return ok
	}
	tv, ok := f.info.Types[e]
	if !ok || tv.IsType() {
		return !ok
	}
	if tv.Value != nil {
		f.constant(e, tv)
		return false
	}
	if b, ok := tv.Type.Underlying().(*types.Basic); ok && b.Info()&types.IsBoolean != 0 {
		f.add(negated, e, f.text(e), "((", ") != mutant__(%d))")
		f.parts(e)
		return false
	}
	return true
}

// parts are the mutants within a condition, without the negations of its parts: those are much the
// same as an operand ignored.
func (f *finder) parts(e ast.Expr) {
	switch e := e.(type) {
	case *ast.ParenExpr:
		f.parts(e.X)
	case *ast.UnaryExpr:
		if e.Op == token.NOT {
			f.parts(e.X)
			return
		}
		ast.Inspect(e.X, f.node)
	case *ast.BinaryExpr:
		switch e.Op {
		case token.LAND:
			f.operand(e, e.X, "(mutant__(%d) || ", ")")
			f.operand(e, e.Y, "(mutant__(%d) || ", ")")
			return
		case token.LOR:
			f.operand(e, e.X, "(!mutant__(%d) && (", "))")
			f.operand(e, e.Y, "(!mutant__(%d) && (", "))")
			return
		case token.LSS, token.GEQ:
			f.boundary(e)
		case token.GTR, token.LEQ:
			f.boundary(e)
		}
		ast.Inspect(e.X, f.node)
		ast.Inspect(e.Y, f.node)
	case *ast.CallExpr:
		for _, part := range append([]ast.Expr{e.Fun}, e.Args...) {
			ast.Inspect(part, f.node)
		}
	case *ast.Ident:
	default:
		first := true
		ast.Inspect(e, func(n ast.Node) bool {
			if first {
				first = false
				return true
			}
			if n == nil {
				return false
			}
			return f.node(n)
		})
	}
}

func (f *finder) operand(whole *ast.BinaryExpr, e ast.Expr, before, after string) {
	f.add(dropped, e, f.text(e)+" in "+f.text(whole), before, after)
	f.parts(e)
}

// boundary moves a comparison by one, where both sides may be computed twice.
func (f *finder) boundary(e *ast.BinaryExpr) {
	if !f.isPure(e.X) || !f.isPure(e.Y) || strings.Contains(f.text(e), "\n") {
		return
	}
	f.add(boundary, e, f.text(e), "((", ") != (mutant__(%d) && ("+f.text(e.X)+") == ("+f.text(e.Y)+")))")
}

func (f *finder) isPure(e ast.Expr) bool {
	pure := true
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			id, ok := n.Fun.(*ast.Ident)
			if !f.info.Types[n.Fun].IsType() && !(ok && (id.Name == "len" || id.Name == "cap")) {
				pure = false
			}
		case *ast.FuncLit:
			pure = false
		case *ast.UnaryExpr:
			if n.Op == token.ARROW {
				pure = false
			}
		}
		return pure
	})
	return pure
}

// constant leaves out what is made of names of other packages alone, as most are flags and numbers of the
// system, and times, of which a nanosecond more is nothing.
func (f *finder) constant(e ast.Expr, tv types.TypeAndValue) {
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
	if foreign && !own || types.TypeString(tv.Type, nil) == "time.Duration" {
		return
	}
	b, ok := tv.Type.Underlying().(*types.Basic)
	if !ok {
		return
	}
	switch {
	case b.Info()&types.IsBoolean != 0:
		f.add(negated, e, f.text(e), "((", ") != mutant__(%d))")
	case b.Info()&types.IsInteger != 0 && b.Info()&types.IsUntyped == 0 && tv.Value.Kind() == constant.Int:
		name := types.TypeString(tv.Type, func(p *types.Package) string {
			if p == f.pkg {
				return ""
			}
			return p.Name()
		})
		f.add(constants, e, f.text(e), "mutated__["+name+"](%d, ", ")")
	}
}
