// Helpers of the checks: figures by name, times as text.

package doctor

import "fmt"

// value returns a figure of the check by its name.
func (c *Check) value(name string) (float64, bool) {
	for _, f := range c.Figures {
		if f.Name == name {
			return f.Value, true
		}
	}
	return 0, false
}

// nanoseconds writes a time for people, with three digits that count.
func nanoseconds(ns float64) string {
	switch {
	case ns < 10:
		return fmt.Sprintf("%.1f ns", ns)
	case ns < 10_000:
		return fmt.Sprintf("%.0f ns", ns)
	case ns < 10_000_000:
		return fmt.Sprintf("%.0f µs", ns/1e3)
	}
	return fmt.Sprintf("%.0f ms", ns/1e6)
}
