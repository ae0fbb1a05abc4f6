package stream

import "strings"

// withoutDumps returns a client's error message without the dumps of protobuf messages that Envoy
// writes into it. Envoy puts a dump before the reason:
//
//	Error adding/updating listener(s) NAME: goo.gle/debugstr
//	stat_prefix: ""
//	route_config {
//	...
//	}
//	: Proto constraint validation failed (HttpConnectionManagerValidationError.StatPrefix: ...)
//
// A dump may be longer than MaxNackMessage, so the reason would be truncated. It ends only at the
// line that begins with ": ". A dump without such a line is kept, because it contains the reason.
// Only its first line, which protobuf varies at random, is left out.
func withoutDumps(message string) string {
	const (
		mark = "goo.gle/debug" // then "only", "proto" or "str", and white space
		end  = "\n: "
	)
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(message, mark)
		if !ok {
			break
		}
		line, dump, ok := strings.Cut(rest, "\n")
		if !ok || len(strings.Fields(line)) > 1 {
			b.WriteString(before + mark) // not a mark, but part of a text
			message = rest
			continue
		}
		b.WriteString(before)
		own, _, _ := strings.Cut(dump, mark) // up to the next dump
		switch {
		case strings.HasPrefix(dump, end[1:]): // of an empty message
			message = dump[len(end)-1:]
		case strings.Contains(own, end):
			_, message, _ = strings.Cut(dump, end)
		default:
			message = dump
		}
	}
	b.WriteString(message)
	return strings.TrimSpace(b.String())
}
