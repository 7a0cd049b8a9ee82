// The effects of a container's annotations. Its author writes them, or its image does if an engine hands on
// annotations of images; the policy is the operator's.

package policy

import (
	"fmt"
	"slices"

	"vfix.dev/vfix/internal/fixes"
	"vfix.dev/vfix/rewriter/find"
)

// Annotations that decide about one container. Others with the same prefix are facts about images, and ignored.
const (
	AnnotationPrefix   = "dev.vfix."
	AnnotationEnable   = AnnotationPrefix + "enable"   // true, or false
	AnnotationFallback = AnnotationPrefix + "fallback" // always, or never
	AnnotationFix      = AnnotationPrefix + "fix"      // as Config.Fix, or noFix
)

// noFix is the word for none in AnnotationFix.
const noFix = "none"

// Decision is the result for one container.
type Decision struct {
	Enabled  bool
	OptedOut bool // not Enabled because of its annotation
	Fallback bool
	Fix      []find.Fix
}

// Decide applies annotations to the configuration. An error says that one of them is invalid, or asks for
// less than the operator demands: with FailClosed the container must then not start.
func (c Config) Decide(annotations map[string]string) (Decision, error) {
	var of Decision // the configuration alone
	var err error
	if of = (Decision{Enabled: !c.OptIn, Fallback: c.Fallback}); c.Fix != "" {
		if of.Fix, err = fixes.Parse(c.Fix); err != nil {
			return of, fmt.Errorf("fix: %w", err)
		}
	}
	d := of
	if d.Enabled, err = choice(annotations, AnnotationEnable, "true", "false", of.Enabled); err != nil {
		return of, err
	}
	d.OptedOut = !d.Enabled && annotations[AnnotationEnable] != ""
	if d.Fallback, err = choice(annotations, AnnotationFallback, "always", "never", of.Fallback); err != nil {
		return of, err
	}
	switch fix := annotations[AnnotationFix]; fix {
	case "":
	case noFix:
		d.Fix = nil
	default:
		if d.Fix, err = fixes.Parse(fix); err != nil {
			return of, fmt.Errorf("annotation %s: %w, or %s", AnnotationFix, err, noFix)
		}
		d.Fix = append(slices.Clone(of.Fix), slices.DeleteFunc(d.Fix, func(r find.Fix) bool { return slices.Contains(of.Fix, r) })...)
	}
	if !c.FailClosed || c.AllowDisable {
		return d, nil
	}
	for name, less := range map[string]bool{
		AnnotationEnable: of.Enabled && !d.Enabled, AnnotationFallback: of.Fallback && !d.Fallback, AnnotationFix: len(d.Fix) < len(of.Fix),
	} {
		if less {
			return of, fmt.Errorf("annotation %s=%s: not allowed with fail-closed", name, annotations[name])
		}
	}
	return d, nil
}

// choice is what an annotation chooses; an empty one, as left by a template, chooses nothing.
func choice(annotations map[string]string, name, yes, no string, otherwise bool) (bool, error) {
	switch got := annotations[name]; got {
	case "":
		return otherwise, nil
	case yes, no:
		return got == yes, nil
	default:
		return false, fmt.Errorf("annotation %s: got %q, want %s or %s", name, got, yes, no)
	}
}
