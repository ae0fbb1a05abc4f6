package calltest

import (
	"fmt"
	"strings"

	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
)

// Request returns the call of c without its direction and addresses. headers are sent besides the
// headers of c. Without Call, the result has no HTTP request and headers is ignored. It returns an
// error if Call or Send is malformed.
func (c *Case) Request(headers ...string) (explain.Call, error) {
	call := explain.Call{
		Carries: explain.Carried(c.Protocol), Claims: c.Claims, Authorizers: explain.Answer(c.Authorizer),
	}
	if c.Send != "" {
		if err := setFirstBytes(&call, c.Send); err != nil {
			return call, err
		}
	}
	if c.Call == "" {
		return call, nil
	}
	lines := append(c.Lines(), headers...)
	if c.Host != "" {
		lines = append(lines, "host: "+c.Host)
	}
	var err error
	call.Request, err = explain.ParseRequest(c.Call, lines...)
	return call, err
}

// setFirstBytes sets the first bytes that the caller sends instead of HTTP: "bytes", "silence" or
// "tls [NAME [ALPN,ALPN]]". Without NAME, or with "-", there is no server name. It returns an error
// for anything else.
func setFirstBytes(call *explain.Call, text string) error {
	words := strings.Fields(text)
	switch {
	case len(words) > 0 && words[0] == "tls" && len(words) <= 3:
		call.Carries = explain.TLS
		if len(words) > 1 && words[1] != "-" {
			call.ServerName = words[1]
		}
		if len(words) > 2 {
			call.ALPN = strings.Split(words[2], ",")
		}
	case len(words) == 1 && (words[0] == string(explain.Bytes) || words[0] == string(explain.Silence)):
		call.Carries = explain.Carried(words[0])
	default:
		return fmt.Errorf("send %q: want bytes, silence or tls NAME [ALPN,ALPN]", text)
	}
	return nil
}
