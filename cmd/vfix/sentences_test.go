package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Nothing is decided by a text that users read: rewording a message must not change what vfix does. An error is
// asked with errors.Is and errors.As, a reason is a type with a String method.

// sentences are the members that hold such texts.
var sentences = []string{"Skipped", "Reason", "Why", "Warning", "Hint", "Problem"}

// deciding are the functions of package strings, and methods of regular expressions, whose result says what a text is.
var deciding = []string{"Contains", "ContainsAny", "HasPrefix", "HasSuffix", "EqualFold", "Index", "LastIndex", "Cut", "CutPrefix", "CutSuffix", "Count", "MatchString"}

// foreign are errors of libraries that have neither a type nor a variable, by file and function.
var foreign = []string{
	"images/registry/retry.go isTemporary",  // net/http: errClientConnNotEstablished, errServerClosedIdle
	"internal/jsonobject/strict.go InWords", // encoding/json: an unknown field has no type
}

// isSentence reports whether an expression is a text for users: what an error says, a member that holds a sentence, or
// a variable that has one of both.
func isSentence(e ast.Expr, held map[string]bool) bool {
	switch e := e.(type) {
	case *ast.CallExpr:
		if f, ok := e.Fun.(*ast.SelectorExpr); ok && len(e.Args) == 0 {
			return f.Sel.Name == "Error"
		}
		if f, ok := e.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "ToLower" && len(e.Args) == 1 {
			return isSentence(e.Args[0], held)
		}
	case *ast.SelectorExpr:
		return slices.Contains(sentences, e.Sel.Name)
	case *ast.Ident:
		return held[e.Name]
	case *ast.ParenExpr:
		return isSentence(e.X, held)
	}
	return false
}

// decidesBySentence lists the functions of a file that do it.
func decidesBySentence(f *ast.File) (names []string) {
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		held, found := map[string]bool{}, false
		empty := func(e ast.Expr) bool {
			l, ok := e.(*ast.BasicLit)
			return ok && (l.Value == `""` || l.Kind != token.STRING)
		}
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				for i, r := range n.Rhs {
					if id, ok := n.Lhs[min(i, len(n.Lhs)-1)].(*ast.Ident); ok && len(n.Rhs) == len(n.Lhs) {
						held[id.Name] = isSentence(r, held)
					}
				}
			case *ast.CallExpr:
				if s, ok := n.Fun.(*ast.SelectorExpr); ok && slices.Contains(deciding, s.Sel.Name) {
					// Of a set of whole texts nothing is decided by what a text says.
					if x, ok := s.X.(*ast.Ident); ok && x.Name == "slices" {
						break
					}
					found = found || len(n.Args) > 0 && isSentence(n.Args[0], held)
				}
			case *ast.BinaryExpr:
				if n.Op == token.EQL || n.Op == token.NEQ {
					_, x := n.X.(*ast.BasicLit)
					_, y := n.Y.(*ast.BasicLit)
					found = found || y && isSentence(n.X, held) && !empty(n.Y) || x && isSentence(n.Y, held) && !empty(n.X)
				}
			case *ast.SwitchStmt:
				found = found || n.Tag != nil && isSentence(n.Tag, held)
			}
			return true
		})
		if found {
			names = append(names, fn.Name.Name)
		}
	}
	return names
}

func TestNoSentenceDecides(t *testing.T) {
	root := filepath.Join("..", "..")
	var used []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := filepath.ToSlash(strings.TrimPrefix(path, root+string(filepath.Separator)))
		switch {
		case d.IsDir() && (d.Name() == "imagetest" || name == "tests" || name == ".cache" || name == "bin" || name == ".git"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		for _, fn := range decidesBySentence(f) {
			at := name + " " + fn
			if slices.Contains(foreign, at) {
				used = append(used, at)
				continue
			}
			t.Errorf("%s: decides by a text that users read", at)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range foreign {
		if !slices.Contains(used, at) {
			t.Errorf("%s: needs no exception", at)
		}
	}
}

// The control: each way to do it, and what is not one.
func TestSentencesAreSeen(t *testing.T) {
	for body, want := range map[string]bool{
		`if strings.Contains(err.Error(), "denied") { }`:                   true,
		`if strings.HasPrefix(r.Skipped, "executable") { }`:                true,
		`_ = p.Reason == "in memory"`:                                      true,
		`_ = "in memory" == p.Reason`:                                      true,
		`text := err.Error(); if strings.HasSuffix(text, "x") { }`:         true,
		`text := strings.ToLower(err.Error()); _ = text == "x"`:            true,
		`switch err.Error() { case "x": }`:                                 true,
		`_, ok := strings.CutPrefix(f.Why, "x"); _ = ok`:                   true,
		`_ = denied.MatchString(err.Error())`:                              true,
		`if p.Reason != "" { }`:                                            false,
		`if errors.Is(err, fs.ErrPermission) { }`:                          false,
		`fmt.Println(strings.TrimPrefix(err.Error(), "json: "))`:           false,
		`text := err.Error(); text = name; _ = strings.Contains(text, "")`: false,
		`_ = strings.Contains(name, "x")`:                                  false,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\nfunc f() { "+body+" }", 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(decidesBySentence(f)) > 0; got != want {
			t.Errorf("%s: got %v, want %v", body, got, want)
		}
	}
}
