package table

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Case is a call, or some alike, and what becomes of it.
type Case struct {
	Topic *Topic `json:"-"`
	// Name describes the case in a few words.
	Name string `json:"name"`
	// From is the caller; by default "web".
	From string `json:"from"`
	// Into makes the call come in at that caller's sidecar instead, from outside the mesh; or at a
	// gateway.
	Into string `json:"into"`

	// Call is an HTTP request: "GET http://reviews:80/path?query", sent to the address to which the
	// caller resolves the host.
	Call string `json:"call"`
	// Send are the bytes sent in place of HTTP: "bytes", "silence", "tls NAME [ALPN,ALPN]"; To says
	// where. TLS may carry a Call.
	Send string `json:"send"`
	// To is where it is sent, "host:port": in place of the URL's host.
	To string `json:"to"`
	// Host is the Host header in place of the URL's.
	Host string `json:"host"`
	// Headers are of the request. The order of their names is that of the alphabet; a list of
	// values is several lines.
	Headers map[string]Values `json:"headers"`
	// Protocol is "http/1.1", "http/1.0" or "h2c".
	Protocol string `json:"protocol"`
	// Via is an address that the proxy itself listens at, for a call to an HTTP proxy or to a
	// listener that is bound: the call is not captured. Absolute has it ask for the whole URL, as
	// HTTP proxies are asked.
	Via      string `json:"via"`
	Absolute bool   `json:"absolute"`
	// Times is how often the call is made, by default once.
	Times int `json:"times"`
	// Answer is the behaviour of the backend, attempt by attempt: "503 200", "200+300ms" after a
	// while, "reset".
	Answer string `json:"answer"`

	Expect Expect `json:"expect"`

	// Unreal says why the case is not really called, Unexplained why explain cannot follow it.
	Unreal      string `json:"unreal"`
	Unexplained string `json:"unexplained"`
	// Broken describes a known defect of the product: the case is run, and fails if it passes.
	Broken string `json:"broken"`
}

// Expect is what becomes of a call. Unset fields are not checked.
type Expect struct {
	// To is who answers: a name, or the shares of several in percent. "reviews-v1" means all
	// instances whose names begin so.
	To Shares `json:"to"`
	// Cluster is what Envoy calls where it goes.
	Cluster string `json:"cluster"`
	// Status is 200 if To is said.
	Status int `json:"status"`
	// Statuses are several with their shares in percent.
	Statuses map[int]float64 `json:"statuses"`
	// Sees are header lines of the request as the backend sees it, null for absent ones; also
	// ":path", ":method" and ":authority".
	Sees map[string]*string `json:"sees"`
	// Gets are header lines of the answer as the caller gets it; a value in slashes is a regular
	// expression.
	Gets map[string]*string `json:"gets"`
	Body *string            `json:"body"`
	// Ends is for calls without an answer: "closed", "waiting", "refused".
	Ends string `json:"ends"`
	// Attempts is how often the backends saw each call.
	Attempts int `json:"attempts"`
	// AtLeast and AtMost bound how long the answer takes.
	AtLeast Duration `json:"atLeast"`
	AtMost  Duration `json:"atMost"`
	// Mirrored are who gets copies, with their shares of all calls in percent.
	Mirrored Shares `json:"mirrored"`
	// Sticky is set if all calls go to one instance, whichever of To it is.
	Sticky bool `json:"sticky"`
	// By are texts that steps of the explanation contain: objects and their rules.
	By Values `json:"by"`
}

// Shares are percentages by name. One name alone is 100.
type Shares map[string]float64

// UnmarshalJSON reads a name, or a map.
func (s *Shares) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '"' {
		var name string
		err := json.Unmarshal(text, &name)
		*s = Shares{name: 100}
		return err
	}
	return json.Unmarshal(text, (*map[string]float64)(s))
}

// Values are one text or several.
type Values []string

// UnmarshalJSON reads a text, or a list.
func (v *Values) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '[' {
		return json.Unmarshal(text, (*[]string)(v))
	}
	var one string
	err := json.Unmarshal(text, &one)
	*v = Values{one}
	return err
}

// Duration is written as Go writes it.
type Duration time.Duration

// UnmarshalJSON reads "300ms".
func (d *Duration) UnmarshalJSON(text []byte) error {
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	parsed, err := time.ParseDuration(s)
	*d = Duration(parsed)
	return err
}

func (c *Case) setDefaults() error {
	if c.From == "" {
		c.From = "web"
	}
	if c.Times == 0 {
		c.Times = 1
	}
	if c.Protocol == "" {
		c.Protocol = "http/1.1"
	}
	if c.Call == "" && c.Send == "" {
		return fmt.Errorf("neither call nor send is said")
	}
	if c.Call == "" && c.To == "" && c.Via == "" {
		return fmt.Errorf("where to is not said")
	}
	if c.Call != "" && c.Expect.To != nil && c.Expect.Status == 0 && c.Expect.Statuses == nil {
		c.Expect.Status = 200
	}
	return nil
}

// ID is the case's full name.
func (c *Case) ID() string { return c.Topic.Name + "/" + c.Name }

// Lines returns the header lines "name: value" in a fixed order.
func (c *Case) Lines() []string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		for _, v := range c.Headers[name] {
			lines = append(lines, name+": "+v)
		}
	}
	if c.Answer != "" {
		lines = append(lines, "x-answer: "+c.Answer)
	}
	return lines
}

// Target says where the call is sent to: an address and port.
func (t *Table) Target(c *Case) (netip.AddrPort, error) {
	where := c.To
	if c.Via != "" {
		where = c.Via
	}
	if where == "" {
		_, url, _ := strings.Cut(c.Call, " ")
		scheme, rest, _ := strings.Cut(url, "://")
		where, _, _ = strings.Cut(rest, "/")
		where, _, _ = strings.Cut(where, "?")
		if i := strings.LastIndexByte(where, ':'); i < 0 || strings.HasSuffix(where, "]") {
			where += map[string]string{"http": ":80", "https": ":443"}[scheme]
		}
	}
	i := strings.LastIndexByte(where, ':')
	if i < 0 {
		return netip.AddrPort{}, fmt.Errorf("%q has no port", where)
	}
	a, err := t.Resolve(where[:i], t.Caller(c.From).Namespace)
	if err != nil {
		return netip.AddrPort{}, err
	}
	port, err := strconv.ParseUint(where[i+1:], 10, 16)
	return netip.AddrPortFrom(a, uint16(port)), err
}
