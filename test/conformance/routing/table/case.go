package table

import (
	"net/netip"
	"strings"

	"github.com/meshpilot/meshpilot/internal/diagnostics/calltest"
	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
)

// Case is a call with its expected result, in the mesh of all topics. From defaults to "web".
type Case struct {
	calltest.Case
	Topic *Topic `json:"-"`

	// Unreal is the reason why the case is not really called, Unexplained why explain cannot follow it.
	Unreal      string `json:"unreal"`
	Unexplained string `json:"unexplained"`
	// Broken describes a known defect of the product: the case is run, and fails if it passes.
	Broken string `json:"broken"`
}

func (c *Case) setDefaults() error {
	if c.From == "" {
		c.From = "web"
	}
	if err := c.Case.SetDefaults(); err != nil {
		return err
	}
	c.BackendHeaders = []explain.Header{{Name: "x-server-a", Value: "a"}, {Name: "x-server-b", Value: "b"}}
	if t := c.Headers["content-type"]; len(t) > 0 && t[0] == "application/grpc" {
		c.BackendHeaders = append(c.BackendHeaders, explain.Header{Name: "grpc-status", Value: "0"})
	}
	if _, h, ok := strings.Cut(c.Answer, ";"); ok {
		name, value, _ := strings.Cut(strings.Fields(h)[0], "=")
		c.BackendHeaders = append(c.BackendHeaders, explain.Header{Name: name, Value: value})
	}
	return nil
}

// ID returns the full name of the case.
func (c *Case) ID() string { return c.Topic.Name + "/" + c.Name }

// Lines returns the header lines "name: value" in a fixed order, with the instructions for the backend.
func (c *Case) Lines() []string {
	lines := c.Case.Lines()
	if c.Answer != "" {
		lines = append(lines, AnswerHeader+": "+c.Answer)
	}
	return lines
}

// AnswerHeader is the header of a request with the instructions for the backend.
const AnswerHeader = "x-answer"

// Target returns the address and port to which the call is sent.
func (t *Table) Target(c *Case) (netip.AddrPort, error) {
	host, port, err := c.Destination()
	if err != nil {
		return netip.AddrPort{}, err
	}
	a, err := t.Resolve(host, t.Caller(c.From).Namespace)
	return netip.AddrPortFrom(a, port), err
}
