// Lines that rule out a crash: a text without a crash has none only if vfix can read every line of it.

package diagnose

import (
	"cmp"
	"strings"

	"vfix.dev/vfix/internal/kernellog"
	"vfix.dev/vfix/internal/lazy"
)

// leave counts a line without a crash as not understood, unless its writer would have reported a crash in known
// words: the kernel, tracers, debuggers and systemd. A program may use any words, so its lines rule nothing out.
func (g *logReader) leave(text string, known bool) {
	indented := strings.HasPrefix(text, " ") || strings.HasPrefix(text, "\t")
	if inReport := g.report != nil && g.report.open && indented; known || inReport || isCalm(text) {
		return
	}
	g.unread++
	g.firstLeft = cmp.Or(g.firstLeft, strings.TrimSpace(text))
}

// isCalm reports whether a line is not about the end of a program: empty lines, separators of journalctl and grep,
// system calls as strace writes them, systemd's messages about starts and stops, and gdb's around a crash.
func isCalm(text string) bool {
	has := func(part string) bool { return strings.Contains(text, part) }
	switch {
	case strings.TrimSpace(text) == "", text == "--", strings.HasPrefix(text, "-- "):
		return true
	case has("[s=") && verboseHead().MatchString(text), has("systemd") && systemdLine().MatchString(text):
		return true
	case (has(" = ") || has("unfinished") || has("resumed")) && straceCall().MatchString(text):
		return true
	}
	return gdbLine().MatchString(text)
}

// The patterns of isCalm.
var (
	verboseHead = lazy.Regexp(`^\w{3} \S+ \S+ \S+ \[s=[0-9a-f]+;i=`)
	straceCall  = lazy.Regexp(straceHead + `\s*(?:\d+[\d:.]*\s+)?(?:\[[0-9a-f?]{16}\]\s+)?` +
		`(?:[a-z]\w*\(.*(?:\)\s+= .*|<unfinished \.\.\.>)|<\.\.\. \w+ resumed>.*)$`)
	systemdLine = lazy.Regexp(`\bsystemd(?:-journald|-udevd|-logind|-modules-load|-sysctl)\[\d+\]: |` +
		`\bsystemd\[\d+\]: (?:\S+: (?:Succeeded\.|Deactivated successfully\.|Consumed )|` +
		`(?:Start|Stopp|Reach|Mount|Unmount|Listen|Creat|Insert|Detect|Queu|Load|Reload|Finish|Clos|` +
		`Remov|Activat|Switch|Initializ|Sett)(?:ed|ing)\b|` +
		`Set |Hostname set |Running in |systemd \d)`)
	gdbLine = lazy.Regexp(`^(?:\(gdb\)|GNU gdb|Copyright \(C\)|License GPL|This is free software|There is NO WARRANTY|Type "|` +
		`This GDB was|For bug reporting|<https?://|Find the GDB|For help|Reading symbols|\[(?:New|Current|Switching to) |\[Thread debugging|Using host libthread|` +
		`Core was generated|Starting program|Missing separate|Thread \d+ \()|` +
		`^\s*#\d+\s+(?:0x[0-9a-f]+|\S+ \()`)
)

// isLog reports whether a line comes from a log of the kernel or of a tracer.
func isLog(text string) bool {
	for _, mark := range []string{`"_TRANSPORT":"kernel"`, `"dmesg":`, " msg=audit(", "page_fault", "+++ exited with"} {
		if strings.Contains(text, mark) {
			return true
		}
	}
	l, ok := kernellog.Strip(text)
	return ok && l.Marked && !ofProgram().MatchString(l.Text)
}

// ofProgram matches the start of a message that a program wrote to the kernel's log without a facility: its name
// and process ID. The kernel's own names, such as IOAPIC[0], have small numbers.
var ofProgram = lazy.Regexp(`^(?:\S+ )?(?:[\w.-]+\[\d{2,}\]|init): `)
