// The parts of find and patch that others see.

package rewriter

import (
	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/rewriter/patch"
	"vfix.dev/vfix/rewriter/x86"
)

// The vsyscall page.
const (
	PageVaddr = find.PageVaddr
	PageSize  = find.PageSize

	Gettimeofday = find.Gettimeofday
	Time         = find.Time
	Getcpu       = find.Getcpu
)

// The kinds of references, and what becomes of them.
const (
	Unknown     = find.Unknown
	Live        = find.Live
	DormantCall = find.DormantCall
	Dormant     = find.Dormant
	Benign      = find.Benign

	Left    = patch.Left
	Entry   = patch.Entry
	Call    = patch.Call
	Lea     = patch.Lea
	Syscall = patch.Syscall

	JavaCgroups = find.JavaCgroups

	SkipNotELF      = elf.KindNotELF
	SkipTooMuchCode = elf.KindTooMuchCode
	SkipFormat      = elf.KindFormat
)

// See find, patch and x86.
type (
	Function       = find.Function
	Verdict        = find.Verdict
	Site           = find.Site
	Report         = find.Report
	ThinMember     = find.ThinMember
	Redirect       = find.Redirect
	Fix            = find.Fix
	Explanation    = find.Explanation
	Program        = find.Program
	Place          = find.Place
	Line           = x86.Line
	Form           = patch.Form
	Options        = patch.Options
	Plan           = patch.Plan
	Patch          = patch.Patch
	Edit           = patch.Edit
	Verification   = patch.Verification
	UnplannedError = patch.UnplannedError
)

// See find and patch.
var (
	FunctionAt = find.FunctionAt
	Fixes      = find.Fixes
	Forms      = patch.Forms
	Scan       = patch.Scan
	ScanWithin = patch.ScanWithin
	Nameless   = find.Nameless
	ScanThin   = find.ScanThin
	Inspect    = find.Inspect
	Look       = find.Look
	NewPlan    = patch.NewPlan
	Verify     = patch.Verify
	ListingAt  = patch.ListingAt
)
