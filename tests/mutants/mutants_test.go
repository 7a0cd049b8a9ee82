package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const sample = `package p

type T struct{ ok bool; n uint8 }

type E struct{}

func (E) Error() string { return "" }

func (t *T) f(a, b int, list []int) (int, error) {
	if a < b && !t.ok {
		t.n = 3
		t.g()
		return 0, E{}
	}
	for i := range list {
		if list[i] == 1<<4 {
			continue
		}
	}
	defer t.Close()
	return h(a)
}

func (t *T) g() { t.ok = a() <= 2 }

func (t *T) Close() {}

func a() int { return 1 }

func h(int) (int, error) { return 0, nil }

func or(x, y, z bool) bool { return x || y || z }
`

func sampled(t *testing.T) []*mutant {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "p.go", sample, 0)
	if err != nil {
		t.Fatal(err)
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}}
	pkg, err := (&types.Config{}).Check("p", fset, []*ast.File{file}, info)
	if err != nil {
		t.Fatal(err)
	}
	p := &program{}
	p.number([]string{"p.go"}, map[string][]*mutant{"p.go": find(fset, info, pkg, file, []byte(sample), "p.go")})
	return p.mutants
}

func TestFind(t *testing.T) {
	want := []string{
		"p.go:10: T.f: condition negated: a < b && !t.ok",
		"p.go:10: T.f: operand ignored: a < b in a < b && !t.ok",
		"p.go:10: T.f: boundary moved: a < b",
		"p.go:10: T.f: operand ignored: !t.ok in a < b && !t.ok",
		"p.go:11: T.f: statement removed: t.n = 3",
		"p.go:11: T.f: constant plus 1: 3",
		"p.go:12: T.f: statement removed: t.g()",
		"p.go:13: T.f: error swallowed: return 0, E{}",
		"p.go:13: T.f: constant plus 1: 0",
		"p.go:16: T.f: condition negated: list[i] == 1<<4",
		"p.go:16: T.f: constant plus 1: 1<<4",
		"p.go:17: T.f: statement removed: continue",
		"p.go:21: T.f: error swallowed: return h(a)",
		"p.go:24: T.g: statement removed: t.ok = a() <= 2",
		"p.go:24: T.g: condition negated: a() <= 2",
		"p.go:24: T.g: constant plus 1: 2",
		"p.go:28: a: constant plus 1: 1",
		"p.go:30: h: constant plus 1: 0",
		"p.go:32: or: condition negated: x || y || z",
		"p.go:32: or: operand ignored: x || y in x || y || z",
		"p.go:32: or: operand ignored: x in x || y",
		"p.go:32: or: operand ignored: y in x || y",
		"p.go:32: or: operand ignored: z in x || y || z",
	}
	var got []string
	for _, m := range sampled(t) {
		got = append(got, m.String())
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The written files compile, have the lines of the source, and do what the source does while no
// mutant is on.
func TestWrite(t *testing.T) {
	mutants := sampled(t)
	text := string(write([]byte(sample), mutants))
	if strings.Contains(text, "%") || strings.Count(text, "\n") != strings.Count(sample, "\n") {
		t.Errorf("got\n%s", text)
	}
	number := regexp.MustCompile(`(mutant__\(|mutated__\[\w+\]\()\d+`)
	for _, want := range []string{
		"func (t *T) g() { if !mutant__(N) { t.ok = ((a() <= mutated__[int](N, 2)) != mutant__(N)) } }",
		"if mutant__(N) { return 0, nil }; return mutated__[int](N, 0), E{}",
		"if mutant__(N) { mutant0__, _ := h(a); return mutant0__, nil }; return h(a)",
		"return (((!mutant__(N) && ((!mutant__(N) && (x)) || (!mutant__(N) && (y)))) || (!mutant__(N) && (z))) != mutant__(N))",
		"if (((mutant__(N) || ((a < b) != (mutant__(N) && (a) == (b)))) && (mutant__(N) || !t.ok)) != mutant__(N)) {",
	} {
		if !strings.Contains(number.ReplaceAllString(text, "${1}N"), want) {
			t.Errorf("got\n%s\nwant in it\n%s", text, want)
		}
	}
}
