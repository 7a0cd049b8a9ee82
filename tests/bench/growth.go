package main

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	hostbench "vfix.dev/vfix/host/bench"
	"vfix.dev/vfix/host/bench/figure"
)

// How a cost grows with its cause: each cause at several places, at each of them some rounds in which
// the programs take turns; then a table, the slope, and a drawing.

// curve is one cause and what it costs.
type curve struct {
	name  string    // of its drawing's file
	title string    // "Rebuild over the size of the image"
	cause string    // "MB"
	costs []string  // "seconds", "memory/MiB"
	at    []float64 // places
	// begin makes what is needed at all places, and end removes it; either may be nil.
	begin func() error
	end   func()
	// place makes what is measured at a place; at is how much of the cause there is in fact.
	place func(want float64) (p place, err error)
}

// place is what is measured for one amount of the cause.
type place struct {
	at      float64
	measure func(program string) (costs []float64, err error)
	undo    func() error
}

// grown is what a curve cost: the least of all rounds, by program, cost and place.
type grown struct {
	curve
	programs []string // their names in the table; the first is the measured one
	x        []float64
	y        [][][]float64
	rounds   []int // of each place
}

// grow measures the costs of a curve, of all programs in turn.
func grow(c curve, programs map[string]string, rounds int) (*grown, error) {
	g := &grown{curve: c, programs: slices.Sorted(maps.Keys(programs))}
	slices.Reverse(g.programs) // vfix, before
	g.y = make([][][]float64, len(programs))
	for i := range g.y {
		g.y[i] = make([][]float64, len(c.costs))
	}
	if c.begin != nil {
		if err := c.begin(); err != nil {
			return nil, err
		}
	}
	if c.end != nil {
		defer c.end()
	}
	for _, want := range c.at {
		p, err := c.place(want)
		if err != nil {
			return nil, err
		}
		g.x = append(g.x, p.at)
		if err := forgetPeak(); err != nil {
			return nil, err
		}
		began, round := time.Now(), 0
		for ; round < rounds && (round < fewRounds || time.Since(began) < placeTime); round++ {
			for i, name := range g.programs {
				costs, err := p.measure(programs[name])
				if err != nil {
					return nil, fmt.Errorf("%g %s: %w", p.at, c.cause, err)
				}
				for k, cost := range costs {
					if round == 0 {
						g.y[i][k] = append(g.y[i][k], cost)
					}
					last := len(g.y[i][k]) - 1
					g.y[i][k][last] = min(g.y[i][k][last], cost)
				}
			}
		}
		g.rounds = append(g.rounds, round)
		if p.undo != nil {
			if err := p.undo(); err != nil {
				return nil, err
			}
		}
	}
	return g, nil
}

// slope is the exponent of the cost in the cause: 1 if it grows as its cause does, 0 if it stays.
// It is the least squares' line through the logarithms.
func slope(x, y []float64) float64 {
	var sx, sy, sxx, sxy float64
	for i := range x {
		lx, ly := math.Log(x[i]), math.Log(y[i])
		sx, sy, sxx, sxy = sx+lx, sy+ly, sxx+lx*lx, sxy+lx*ly
	}
	n := float64(len(x))
	return (n*sxy - sx*sy) / (n*sxx - sx*sx)
}

// times is how many times as much the measured program costs as the other one: the median over the
// places of the ratios of their least.
func (g *grown) times(cost int) float64 {
	var all []float64
	for n := range g.x {
		all = append(all, g.y[0][cost][n]/g.y[1][cost][n])
	}
	return median(all)
}

// print writes the table.
func (g *grown) print() {
	fmt.Printf("%s: the least of some rounds\n", g.title)
	const column = "%14s"
	fmt.Printf(column, g.cause)
	for _, p := range g.programs {
		for _, cost := range g.costs {
			if len(g.programs) > 1 {
				cost = p + " " + cost
			}
			fmt.Printf(column, cost)
		}
	}
	fmt.Printf(column+"\n", "rounds")
	for n, x := range g.x {
		fmt.Printf(column, fmt.Sprintf("%.0f", x))
		for i := range g.programs {
			for k := range g.costs {
				fmt.Printf(column, fmt.Sprintf("%.4g", g.y[i][k][n]))
			}
		}
		fmt.Printf(column+"\n", fmt.Sprint(g.rounds[n]))
	}
	fmt.Printf(column, "slope")
	for i := range g.programs {
		for k := range g.costs {
			fmt.Printf(column, fmt.Sprintf("%.2f", slope(g.x, g.y[i][k])))
		}
	}
	fmt.Println()
	if len(g.programs) > 1 {
		fmt.Printf(column, "ratio")
		for k := range g.costs {
			fmt.Printf(column, fmt.Sprintf("%.2f", g.times(k)))
		}
		fmt.Println()
	}
	fmt.Println()
}

// plot draws each cost into dir.
func (g *grown) plot(dir string) error {
	for k, cost := range g.costs {
		var lines []figure.Line
		for i, p := range g.programs {
			lines = append(lines, figure.Line{Name: fmt.Sprintf("%s, slope %.2f", p, slope(g.x, g.y[i][k])), X: g.x, Y: g.y[i][k]})
		}
		data, err := figure.Lines(".svg", g.title+"\n"+hostbench.Conditions(), g.cause, cost, lines)
		if err != nil {
			return err
		}
		name := g.name
		if k > 0 {
			name += fmt.Sprint(k)
		}
		if err := os.WriteFile(filepath.Join(dir, "growth-"+name+".svg"), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// growth measures all curves, or the one that is named, and what they mean for a large registry.
func (b *bench) growth() error {
	programs := map[string]string{"vfix": b.vfix}
	if b.before != "" {
		programs["before"] = b.before
	}
	all := map[string]*grown{}
	known := false
	for _, c := range b.curves() {
		if b.curve != "" && !slices.Contains(strings.Split(b.curve, ","), c.name) {
			continue
		}
		known = true
		if reason := b.missing(c.name); reason != "" {
			fmt.Printf("%s: not measured: %s\n\n", c.title, reason)
			continue
		}
		g, err := grow(c, programs, b.rounds)
		if err != nil {
			return fmt.Errorf("%s: %w", c.title, err)
		}
		g.print()
		if b.plot != "" {
			if err := g.plot(b.plot); err != nil {
				return err
			}
		}
		all[c.name] = g
	}
	if !known {
		return fmt.Errorf("-curve %s: no such curve", b.curve)
	}
	if images, bases := all["images"], all["bases"]; images != nil && bases != nil {
		printFleet(fleetCosts(images, bases))
	}
	return nil
}

// A place where a round takes long gets fewer rounds: no more than fit into this time, but a few.
const (
	placeTime = time.Minute
	fewRounds = 3
)
