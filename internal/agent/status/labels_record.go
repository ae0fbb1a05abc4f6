package status

import (
	"cmp"
	"slices"
	"strings"
)

// label is a label with its value as it stands between the quotes, escapes and all.
type label struct{ name, value string }

func indexOf(list []label, name string) int {
	return slices.IndexFunc(list, func(l label) bool { return l.name == name })
}

// parse reads `a="b",c="d\"e"`, and adds it to the list.
func parse(list []label, text string) []label {
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

// optional is a value, which may be empty, if there is one.
type optional struct {
	text  string
	there bool
}

// record is what the standard label says of a request or connection. Names of a newer control plane are not in it.
type record struct {
	server                      bool     // the proxy reports as the destination
	kind                        string   // k
	code, flags, grpc           optional // c f g
	protocol                    string   // q
	service, peer               string   // s p
	ownPrincipal, peerPrincipal optional // o n
	gone                        [labelCount]bool
}

// readRecord reads "a=b|c=d". A label by its whole name is one that was removed. The last value is the name in the peer's
// certificate, and has all that follows.
func readRecord(text string) record {
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
		r.set(name, value)
	}
	return r
}

func (r *record) set(name, value string) {
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
	default:
		if i := labelIndex(name); value == removed && i >= 0 {
			r.gone[i] = true
		}
	}
}

// opens says whether the client opened a connection by this: it was led to the upstream one, or there was none to be had.
func (r *record) opens() bool {
	return r.kind == "TcpUpstreamConnected" && !r.neverConnected() || r.kind == "TcpConnectionEnd" && r.neverConnected()
}

func (r *record) closes() bool { return r.kind == "TcpConnectionEnd" }

// neverConnected says whether there was no upstream connection: UF failed, UH no healthy endpoint, UO too many, NC no cluster,
// NR no route, URX all attempts failed.
func (r *record) neverConnected() bool {
	for flag := range strings.SplitSeq(r.flags.text, ",") {
		switch flag {
		case "UF", "UH", "UO", "NC", "NR", "URX":
			return true
		}
	}
	return false
}

// orUnknown is Istio's word for what is not there.
func orUnknown(v string) string {
	if v == "-" {
		return unknown
	}
	return cmp.Or(v, unknown)
}
