package explain

import (
	"fmt"
	"net/http"
	"strings"
)

// String formats the path with a line for the call, each step (with the rules that the call nearly
// matches), note and ending. The path at the callee follows, if there is one.
func (p *Path) String() string {
	var b strings.Builder
	fmt.Fprintln(&b, p.Call)
	for _, s := range p.Steps {
		fmt.Fprintf(&b, "  %s\n", s)
		for _, m := range s.Missed {
			fmt.Fprintf(&b, "    not %s\n", m)
		}
	}
	for _, n := range p.Notes {
		fmt.Fprintf(&b, "  note: %s\n", n)
	}
	for _, e := range p.Endings {
		fmt.Fprintf(&b, "=> %s\n", e)
	}
	if p.Callee != nil {
		fmt.Fprintf(&b, "and there, %s", p.Callee)
	}
	return b.String()
}

// String formats a call in one line. A call to a Unix domain socket has its path instead of the
// address.
func (c Call) String() string {
	to := c.To.String()
	if c.Socket != "" {
		to = c.Socket
	}
	what := string(c.carriedProtocol())
	switch {
	case c.Request != nil:
		what = c.Request.String()
	case c.carriedProtocol() == TLS:
		what = fmt.Sprintf("TLS, server name %q", c.ServerName)
	}
	return fmt.Sprintf("%s to %s: %s", c.Direction, to, what)
}

// String formats a request in one line, "METHOD SCHEME://AUTHORITY/PATH", without its headers. The
// default scheme is http.
func (r *Request) String() string {
	scheme := r.Scheme
	if scheme == "" {
		scheme = "http"
	}
	return r.Method + " " + scheme + "://" + r.Authority + r.Path
}

// String formats a step in one line: "route #2: path begins with /a: route matched
// [VirtualService/shop/web spec.http[2]]".
func (s Step) String() string {
	var b strings.Builder
	b.WriteString(string(s.Stage))
	if s.Resource != "" {
		b.WriteString(" " + s.Resource)
	}
	if s.Matched != "" {
		b.WriteString(": " + s.Matched)
	}
	b.WriteString(": " + s.Decided)
	if len(s.By) > 0 {
		var by []string
		for _, o := range s.By {
			by = append(by, o.String())
		}
		b.WriteString(" [" + strings.Join(by, ", ") + "]")
	}
	return b.String()
}

// String formats an object: "VirtualService/shop/web spec.http[2].match[0]".
func (o Object) String() string {
	if o.Rule == "" {
		return o.Key.String()
	}
	return o.Key.String() + " " + o.Rule
}

// String formats an ending in one line, with its delay if it has one, and its share if that is
// below 1.
func (e Ending) String() string {
	text := e.describe()
	if e.Delay > 0 {
		text = "after " + e.Delay.String() + " " + text
	}
	if e.Share < 1 {
		text = formatPercent(e.Share) + " " + text
	}
	return text
}

// reasonSuffix returns the reason, details and flags of an ending as a suffix, in parentheses if it
// was answered and after a colon otherwise. It returns "" if the ending has none of these.
func (e Ending) reasonSuffix() string {
	text := e.Reason
	if e.Details != "" {
		text += ": " + e.Details
	}
	if e.Flags != "" {
		text += "; response flags " + e.Flags
	}
	switch {
	case text == "":
		return ""
	case e.Kind == Answered:
		return " (" + text + ")"
	default:
		return ": " + text
	}
}

// describe formats an ending without its share and delay. A forwarded one has cluster, endpoints,
// transport and upstream request. An answered one has status, headers, body (at most 80 characters)
// and reasonSuffix, and any other one its kind and reasonSuffix.
func (e Ending) describe() string {
	switch e.Kind {
	case Forwarded:
		text := e.Cluster + " at " + endpointsText(e.Endpoints) + ", in " + e.Transport
		if e.Upstream != nil {
			text += ", " + e.Protocol + ", as " + e.Upstream.String()
		}
		return text
	case Answered:
		text := strings.TrimSpace(fmt.Sprint(e.Status, " ", http.StatusText(e.Status)))
		for _, h := range e.Header {
			text += ", " + h.Name + ": " + h.Value
		}
		if e.Body != "" {
			text += fmt.Sprintf(", %.80q", e.Body)
		}
		return text + e.reasonSuffix()
	default:
		return string(e.Kind) + e.reasonSuffix()
	}
}
