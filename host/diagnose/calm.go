// The lines that clear: a text without a crash says that there was none only if it has no others.

package diagnose

import (
	"cmp"
	"strings"

	"vfix.dev/vfix/internal/kernellog"
	"vfix.dev/vfix/internal/lazy"
)

// leave passes over a line without a crash. Those of the kernel, of tracers, of debuggers and of systemd would report
// one in words that are known. Nobody knows all words of programs, so that their lines clear nothing.
func (g *logReader) leave(text string, known bool) {
	indented := strings.HasPrefix(text, " ") || strings.HasPrefix(text, "\t")
	if inReport := g.report != nil && g.report.open && indented; known || inReport || isCalm(text) {
		return
	}
	g.unread++
	g.firstLeft = cmp.Or(g.firstLeft, strings.TrimSpace(text))
}

// isCalm reports whether a line is about no end of a program: empty, of journalctl or grep between entries, a system
// call as strace writes it, systemd's words about starts and stops, and those of gdb beside a crash.
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

// The lines of isCalm.
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

// isLog reports whether a line is of a log of the kernel or of a tracer, whatever it says.
func isLog(text string) bool {
	for _, mark := range []string{`"_TRANSPORT":"kernel"`, `"dmesg":`, " msg=audit(", "page_fault", "+++ exited with"} {
		if strings.Contains(text, mark) {
			return true
		}
	}
	l, ok := kernellog.Strip(text)
	return ok && l.Marked && !ofProgram().MatchString(l.Text)
}

// ofProgram begins what a program wrote to the kernel's log without a facility: its name and process. The kernel's own
// names, such as IOAPIC[0], have small numbers.
var ofProgram = lazy.Regexp(`^(?:\S+ )?(?:[\w.-]+\[\d{2,}\]|init): `)
