// Finds the word that a mistyped one was meant to be.

package textutil

import "strings"

// letters is how many letters of a longer word may be wrong.
const letters = 2

// Nearest lists the words that are nearest to a mistyped one and differ in two letters at most, in fewer if the
// word is short; none if typed is one of them.
func Nearest(typed string, words []string) []string {
	var near []string
	least := min(letters, len(typed)/2)
	for _, w := range words {
		if w == typed {
			return nil
		}
		switch n := distance(strings.ToLower(typed), strings.ToLower(w)); {
		case n < least:
			near, least = []string{w}, n
		case n == least:
			near = append(near, w)
		}
	}
	return near
}

// distance is how many letters were left out, added, replaced or exchanged with the next one (optimal string
// alignment).
func distance(a, b string) int {
	s, t := []rune(a), []rune(b)
	before, last := make([]int, len(t)+1), make([]int, len(t)+1)
	for j := range last {
		last[j] = j
	}
	for i := range s {
		now := make([]int, len(t)+1)
		now[0] = i + 1
		for j := range t {
			cost := 1
			if s[i] == t[j] {
				cost = 0
			}
			now[j+1] = min(last[j+1]+1, now[j]+1, last[j]+cost)
			if i > 0 && j > 0 && s[i] == t[j-1] && s[i-1] == t[j] {
				now[j+1] = min(now[j+1], before[j-1]+1)
			}
		}
		before, last = last, now
	}
	return last[len(t)]
}
