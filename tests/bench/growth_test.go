package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSlope(t *testing.T) {
	x := []float64{1, 10, 50, 1000}
	for _, want := range []float64{0, 0.5, 1, 2} {
		var y []float64
		for _, v := range x {
			y = append(y, 3*math.Pow(v, want))
		}
		if got := slope(x, y); math.Abs(got-want) > 1e-9 {
			t.Errorf("got %g, want %g", got, want)
		}
	}
}

// A vfix that was made slower is seen to be, whichever of the two is measured; that it sleeps for so
// long is nothing that load can hide.
func TestSlowdownIsSeen(t *testing.T) {
	dir := t.TempDir()
	vfix, slow := filepath.Join(dir, "vfix"), filepath.Join(dir, "slow")
	for name, text := range map[string]string{vfix: "", slow: "sleep 0.5\n"} {
		if err := os.WriteFile(name, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	scanned := filepath.Join(dir, "scanned")
	if err := writeSmall(scanned, 0, 10); err != nil {
		t.Fatal(err)
	}
	c := curve{cause: "files", costs: []string{"seconds", "memory/MiB"}, at: []float64{1, 2}, place: func(at float64) (place, error) {
		return place{at: at, measure: func(program string) ([]float64, error) {
			run, err := timed(program, "scan", scanned)
			return costsOf(run), err
		}}, nil
	}}
	for _, tc := range []struct {
		vfix, before string
		slower       bool
	}{{slow, vfix, true}, {vfix, slow, false}} {
		g, err := grow(c, map[string]string{"vfix": tc.vfix, "before": tc.before}, 2)
		if err != nil {
			t.Fatal(err)
		}
		if got := g.times(0); (got > 1.5) != tc.slower || (got < 1/1.5) == tc.slower {
			t.Errorf("%s against %s: got %.2f times as long", filepath.Base(tc.vfix), filepath.Base(tc.before), got)
		}
		if err := g.plot(dir); err != nil {
			t.Fatal(err)
		}
		drawing, err := os.ReadFile(filepath.Join(dir, "growth-.svg"))
		if err != nil || !strings.Contains(string(drawing), ">before, slope ") {
			t.Errorf("%v: got %s", err, drawing)
		}
	}
	// A program that fails is not a measurement.
	if _, err := grow(c, map[string]string{"vfix": "/bin/false"}, 1); err == nil {
		t.Error("a program that fails: want an error")
	}
}

// On one node each base is read once; on more nodes it takes less time and more bytes.
func TestSimulate(t *testing.T) {
	c := fleetCost{image: 0.36, megabyte: 0.036, requests: 40}
	one := simulate(c, 1)
	if want := (fleetImages*(c.image+fleetOwnMB*c.megabyte) + fleetBases*fleetBaseMB*c.megabyte) / 3600; math.Abs(one.hours-want) > 1e-9 || one.most != fleetImages || one.basesRepeated != 1 {
		t.Errorf("got %+v, want %g hours", one, want)
	}
	eight := simulate(c, 8)
	if eight.hours >= one.hours/2 || eight.hours <= one.hours/8 || eight.read <= one.read || eight.most < fleetImages/8 || eight.requests != one.requests {
		t.Errorf("got %+v on eight nodes, %+v on one", eight, one)
	}
}

func TestFleetCosts(t *testing.T) {
	images := &grown{x: []float64{10, 30}, y: [][][]float64{{{1, 3}, {5, 7}, {100, 500}, {0, 0}, {1, 41}}}}
	bases := &grown{x: []float64{1, 5}, y: [][][]float64{{{2, 6}, {5, 7}, {0, 0}, {20, 100}, {1, 9}}}}
	if got, want := fleetCosts(images, bases), (fleetCost{image: 0.1, megabyte: 0.05, requests: 20, pushed: 2}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
