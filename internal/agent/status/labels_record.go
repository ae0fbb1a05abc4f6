package status

import (
	"cmp"
	"slices"
	"strings"
)

// label is a label with its value as written between the quotes, including escapes.
type label struct{ name, value string }

// labelPosition returns the index of a label in the list, or -1 if it is not there.
func labelPosition(list []label, name string) int {
	return slices.IndexFunc(list, func(l label) bool { return l.name == name })
}

// parseLabels parses the Prometheus labels `a="b",c="d\"e"` and appends them to list. Values keep
// their backslash escapes. Parsing stops at text without `="`, and keeps the labels before it. A
// value without a closing quote ends at the end of the text.
func parseLabels(list []label, text string) []label {
	for text != "" {
		name, rest, ok := strings.Cut(text, `="`)
		if !ok {
			break
		}
		end := 0
		for end < len(rest) && rest[end] != '"' {
			if rest[end] == '\\' {
				end++
			}
			end++
		}
		end = min(end, len(rest))
		list = append(list, label{name, rest[:end]})
		text = strings.TrimPrefix(strings.TrimPrefix(rest[end:], `"`), ",")
	}
	return list
}

// optional is a value that may be unset or empty.
type optional struct {
	text string
	set  bool
}

// record is the parsed standard label of a request or connection. Unknown fields, of a newer
// control plane, are ignored.
type record struct {
	server                      bool     // the proxy reports as the destination
	kind                        string   // k
	code, flags, grpc           optional // c f g
	protocol                    string   // q
	service, peer               string   // s p
	ownPrincipal, peerPrincipal optional // o n
	peerCertified               optional // i: whether the peer presented a certificate; without n only
	peerNamespace               string   // m: the namespace in the peer's SPIFFE ID; without n only
	removed                     [labelCount]bool
}

// parseRecord parses "a=b|c=d", up to a field without "=". A field with the full name of a label
// and removedValue marks that label as removed. The field n is the last one, the name in the peer's
// certificate: it extends to the end of the text, because it may contain any character.
func parseRecord(text string) record {
	var r record
	for more := true; more; {
		name, rest, ok := strings.Cut(text, "=")
		if !ok {
			return r
		}
		if name == "n" {
			r.peerPrincipal = optional{rest, true}
			return r
		}
		var value string
		value, text, more = strings.Cut(rest, "|")
		r.setField(name, value)
	}
	return r
}

// setField sets a field by its short name: r, k, c, f, g, q, s, p, o, i or m. The name of a label
// with removedValue marks that label as removed; all other names are ignored.
func (r *record) setField(name, value string) {
	switch name {
	case "r":
		r.server = value == "d"
	case "k":
		r.kind = value
	case "c":
		r.code = optional{value, true}
	case "f":
		r.flags = optional{value, true}
	case "g":
		r.grpc = optional{value, true}
	case "q":
		r.protocol = value
	case "s":
		r.service = value
	case "p":
		r.peer = value
	case "o":
		r.ownPrincipal = optional{value, true}
	case "i":
		r.peerCertified = optional{value, true}
	case "m":
		r.peerNamespace = value
	default:
		if i := labelIndex(name); value == removedValue && i >= 0 {
			r.removed[i] = true
		}
	}
}

// countsOpened reports whether the record counts as an opened connection. It does if the upstream
// connected, or if the connection ended and neverConnected is true.
func (r *record) countsOpened() bool {
	return r.kind == "TcpUpstreamConnected" && !r.neverConnected() || r.kind == "TcpConnectionEnd" && r.neverConnected()
}

// countsClosed reports whether the record counts as a closed connection: it is the end of a TCP
// connection.
func (r *record) countsClosed() bool { return r.kind == "TcpConnectionEnd" }

// neverConnected reports whether a response flag means that there was no upstream connection. These
// are UF connection failure, UH no healthy endpoint, UO overflow, NC no cluster, NR no route and
// URX retries exhausted.
func (r *record) neverConnected() bool {
	for flag := range strings.SplitSeq(r.flags.text, ",") {
		switch flag {
		case "UF", "UH", "UO", "NC", "NR", "URX":
			return true
		}
	}
	return false
}

// orUnknown returns v, or Istio's "unknown" if v is empty or "-".
func orUnknown(v string) string {
	if v == "-" {
		return unknown
	}
	return cmp.Or(v, unknown)
}
