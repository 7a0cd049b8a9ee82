package main

import (
	"fmt"
	"hash/fnv"
	"math"
)

// The meaning of the measured costs of a batch for a registry of 10,000 images: a simulation, on nodes that
// each do one part of the list (vfix rebuild --from-file LIST --shard I/N).

// fleetCost is what one node spends.
type fleetCost struct {
	image    float64 // seconds for an image on a base that is known
	megabyte float64 // seconds for a megabyte, compressed, that is read
	requests float64 // for an image
	pushed   float64 // MB for an image: the layer that is added, if no other image has it, and its manifest
}

// fleetCosts are the differences between the places of two curves: over images on the same bases, and
// over bases of as many images.
func fleetCosts(images, bases *grown) fleetCost {
	per := func(g *grown, cost int) float64 {
		last := len(g.x) - 1
		return (g.y[0][cost][last] - g.y[0][cost][0]) / (g.x[last] - g.x[0])
	}
	const seconds, requests, read, pushed = 0, 2, 3, 4 // of batchCurve's costs
	return fleetCost{image: per(images, seconds), megabyte: per(bases, seconds) / per(bases, read), requests: per(images, requests), pushed: per(images, pushed)}
}

// The registry that is simulated. Bases are used as often as their rank says (Zipf): the first by one
// image of seven, half of them by a few.
const (
	fleetImages = 10_000
	fleetBases  = 500
	fleetBaseMB = 200.0 // compressed
	fleetOwnMB  = 20.0  // of each image, compressed
)

// fleetNodes is what each node of several has to do.
type fleetNodes struct {
	nodes, most   int     // nodes, and images of the one with most
	hours         float64 // until the last has finished
	read, pushed  float64 // GB of all
	requests      float64 // millions of all
	basesRepeated float64 // how often a base is read on average, by one node each
}

// simulate distributes the images as vfix does, by a hash of their line.
func simulate(c fleetCost, nodes int) fleetNodes {
	weight := 0.0
	for rank := range fleetBases {
		weight += 1 / float64(rank+1)
	}
	images, seen := make([]int, nodes), make([]map[int]bool, nodes)
	for n := range seen {
		seen[n] = map[int]bool{}
	}
	base, until := 0, fleetImages/weight
	for i := range fleetImages {
		for float64(i) >= until && base < fleetBases-1 {
			base++
			until += fleetImages / weight / float64(base+1)
		}
		h := fnv.New64a()
		fmt.Fprintf(h, "docker://registry.example/team/image%d:1 ", i)
		n := int(h.Sum64() % uint64(nodes))
		images[n]++
		seen[n][base] = true
	}
	f := fleetNodes{nodes: nodes, requests: fleetImages * c.requests / 1e6}
	reads := 0
	for n := range nodes {
		seconds := float64(images[n])*(c.image+fleetOwnMB*c.megabyte) + float64(len(seen[n]))*fleetBaseMB*c.megabyte
		f.hours = math.Max(f.hours, seconds/3600)
		f.most = max(f.most, images[n])
		reads += len(seen[n])
	}
	f.basesRepeated = float64(reads) / fleetBases
	f.read, f.pushed = (float64(reads)*fleetBaseMB+fleetImages*fleetOwnMB)/1e3, fleetImages*c.pushed/1e3
	return f
}

// printFleet writes what several numbers of nodes would take.
func printFleet(c fleetCost) {
	fmt.Printf("A registry, simulated: %d images of %.0f MB over %d bases of %.0f MB, compressed; measured: %.3f s for an image, %.2f s for 100 MB, %.1f requests and %.1f kB pushed for an image\n",
		fleetImages, fleetOwnMB, fleetBases, fleetBaseMB, c.image, 100*c.megabyte, c.requests, 1e3*c.pushed)
	fmt.Printf("%8s %14s %10s %12s %14s %12s %16s\n", "nodes", "images, most", "hours", "read/GB", "reads of a base", "pushed/GB", "requests/million")
	for _, nodes := range []int{1, 2, 4, 8, 16, 32} {
		f := simulate(c, nodes)
		fmt.Printf("%8d %14d %10.2f %12.0f %14.2f %12.2f %16.2f\n", f.nodes, f.most, f.hours, f.read, f.basesRepeated, f.pushed, f.requests)
	}
	fmt.Println()
}
