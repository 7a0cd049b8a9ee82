// Removing credentials from texts that leave vfix.

package textutil

import (
	"regexp"
	"strings"
	"sync"
)

// secrets are made when they are first needed: few commands need them.
var secrets = sync.OnceValue(func() (s struct{ userInfo, bareInfo, path, queryValues, authHeader, openQuery *regexp.Regexp }) {
	s.userInfo = regexp.MustCompile(`(://)[^/\s"'@]*@`)
	// USER:PASSWORD@HOST without a scheme; NAME:TAG@DIGEST looks alike and stays.
	s.bareInfo = regexp.MustCompile(`[^\s/"'@:]+:[^\s/"'@]+@([a-z0-9]+:[0-9a-f]{32})?`)
	s.path = regexp.MustCompile(`^(dir|oci|oci-archive|docker-archive|docker-daemon|sif|container):`) // of a source
	s.queryValues = regexp.MustCompile(`([?&][A-Za-z0-9_.~%-]+=)[^&\s"'#]+`)
	s.authHeader = regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9+/=._~-]{8,}`)
	s.openQuery = regexp.MustCompile(`^[?&](scope|service|platform|tag|n|last|repo|mount|from)=$`)
	return s
})

// Redact removes credentials from a text that leaves vfix, in a message, a file or JSON: the user part of a
// URL, the values of its query except for the public ones of registry requests (a signed blob URL is as good
// as a password), and what follows Basic or Bearer.
func Redact(s string) string {
	r := secrets()
	s = r.userInfo.ReplaceAllString(s, "${1}")
	s = r.bareInfo.ReplaceAllStringFunc(s, func(m string) string {
		if strings.HasSuffix(m, "@") && !r.path.MatchString(m) {
			return "REDACTED@"
		}
		return m
	})
	s = r.queryValues.ReplaceAllStringFunc(s, func(m string) string {
		key := m[:strings.IndexByte(m, '=')+1]
		if r.openQuery.MatchString(key) {
			return m
		}
		return key + "REDACTED"
	})
	return r.authHeader.ReplaceAllString(s, "${1} REDACTED")
}
