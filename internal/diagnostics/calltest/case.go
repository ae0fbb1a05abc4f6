package calltest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
)

// Case is a call and its expected result.
type Case struct {
	// Name describes the case in a few words. Names are unique in a file.
	Name string `json:"name"`
	// From is the workload that calls.
	From string `json:"from"`
	// Into is set for a call that arrives at the proxy of this workload from outside the mesh, or
	// at this gateway. From is then not used.
	Into string `json:"into"`
	// As is the identity of the caller of an Into call by mutual TLS: "NAMESPACE/ACCOUNT" or
	// "TRUSTDOMAIN/ns/NAMESPACE/sa/ACCOUNT". If empty, an Into call has no certificate.
	As string `json:"as"`
	// Address is the IP address of the caller of an Into call, for rules that match it.
	Address netip.Addr `json:"address"`

	// Call is an HTTP request: "GET http://reviews:80/path?query". It is sent to the address to
	// which the caller resolves the host.
	Call string `json:"call"`
	// Send is sent instead of HTTP: "bytes", "silence" or "tls NAME [ALPN,ALPN]". TLS may carry a
	// Call.
	Send string `json:"send"`
	// To is the destination "host:port". It replaces the host of the URL.
	To string `json:"to"`
	// Host is the Host header. It replaces the host of the URL.
	Host string `json:"host"`
	// Headers are the headers of the request. They are sent in alphabetic order; a list of values
	// is several lines.
	Headers map[string]Values `json:"headers"`
	// Protocol is "http/1.1" (default), "http/1.0" or "h2c".
	Protocol string `json:"protocol"`
	// Via is an address at which the proxy itself listens, for a call that is not captured. If
	// Absolute is set, the request has an absolute URL, as for HTTP proxies.
	Via      string `json:"via"`
	Absolute bool   `json:"absolute"`
	// Claims are the claims of a token that is assumed to be valid.
	Claims map[string]any `json:"claims"`
	// Authorizer is the assumed answer of external authorizers: "allow" (default), "deny" or
	// "fail".
	Authorizer string `json:"authorizer"`

	// Times is the number of real calls (default 1).
	Times int `json:"times"`
	// Answer is the behaviour of the backend in real calls, attempt by attempt: "503 200",
	// "200+300ms", "reset".
	Answer string `json:"answer"`
	// BackendHeaders are the headers of the response that the backend is known to send.
	BackendHeaders []explain.Header `json:"-"`

	Expect Expect `json:"expect"`
}

// Expect is the expected result of a call. Unset fields are not checked.
type Expect struct {
	// Verdict is the decision of access policies, as ParseVerdict reads it. An Expect that is a
	// text instead of an object has only this field.
	Verdict string `json:"verdict"`
	// To is the workload that answers, or the shares of several in percent. "reviews-v1" also means
	// every workload whose name begins with "reviews-v1-".
	To Shares `json:"to"`
	// Cluster is the name of Envoy's cluster.
	Cluster string `json:"cluster"`
	// Status defaults to 200 if To is set.
	Status int `json:"status"`
	// Statuses are several status codes with their shares in percent.
	Statuses map[int]float64 `json:"statuses"`
	// Sees are headers of the request that the workload receives; null for absent ones. The names
	// ":path", ":method" and ":authority" are allowed.
	Sees map[string]*string `json:"sees"`
	// Gets are headers of the response that the caller receives. A value between slashes is a
	// regular expression.
	Gets map[string]*string `json:"gets"`
	Body *string            `json:"body"`
	// Ends is the end of a call without a response: "closed", "waiting", "refused".
	Ends string `json:"ends"`
	// Attempts is the number of requests that the backends receive for each real call.
	Attempts int `json:"attempts"`
	// AtLeast and AtMost limit the duration of the call.
	AtLeast Duration `json:"atLeast"`
	AtMost  Duration `json:"atMost"`
	// Mirrored are the workloads that receive copies, with their shares of all calls in percent.
	Mirrored Shares `json:"mirrored"`
	// Sticky is set if all real calls reach one workload, which may be any of To.
	Sticky bool `json:"sticky"`
	// By are texts that steps of the explanation contain: objects and their rules.
	By Values `json:"by"`
}

// UnmarshalJSON reads a string as the verdict, or an object, in which it refuses unknown fields.
// The verdict is not checked here.
func (e *Expect) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '"' {
		return json.Unmarshal(text, &e.Verdict)
	}
	type plain Expect
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode((*plain)(e))
}

// Shares are percentages by name. A single name is 100.
type Shares map[string]float64

// UnmarshalJSON reads a string as the name that has all calls (100), or a map from name to share in
// percent. A map replaces the shares of its names in s and keeps the others; the sum need not be
// 100.
func (s *Shares) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '"' {
		var name string
		err := json.Unmarshal(text, &name)
		*s = Shares{name: 100}
		return err
	}
	return json.Unmarshal(text, (*map[string]float64)(s))
}

// Values are one or more texts.
type Values []string

// UnmarshalJSON reads a string as a list of one value, or a list.
func (v *Values) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '[' {
		return json.Unmarshal(text, (*[]string)(v))
	}
	var one string
	err := json.Unmarshal(text, &one)
	*v = Values{one}
	return err
}

// Duration is written as in Go: "300ms".
type Duration time.Duration

// UnmarshalJSON reads a duration as time.ParseDuration does, such as "1.5s". A number is an error.
func (d *Duration) UnmarshalJSON(text []byte) error {
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	parsed, err := time.ParseDuration(s)
	*d = Duration(parsed)
	return err
}

// SetDefaults sets the fields that are not set: Times to 1, Protocol to HTTP/1.1, and Expect.Status
// to 200 if answering workloads, but no status, are expected of a call. It returns an error if
// neither call nor send is set, if a send has neither to nor via, or if the verdict is malformed.
// Times and Protocol are set even then.
func (c *Case) SetDefaults() error {
	if c.Times == 0 {
		c.Times = 1
	}
	if c.Protocol == "" {
		c.Protocol = "http/1.1"
	}
	switch {
	case c.Call == "" && c.Send == "":
		return errors.New("neither call nor send is set")
	case c.Call == "" && c.To == "" && c.Via == "":
		return errors.New("send needs a destination in to or via")
	}
	if c.Expect.Verdict != "" {
		if _, err := ParseVerdict(c.Expect.Verdict); err != nil {
			return fmt.Errorf("expect: %w", err)
		}
	}
	if c.Call != "" && c.Expect.To != nil && c.Expect.Status == 0 && c.Expect.Statuses == nil {
		c.Expect.Status = 200
	}
	return nil
}

// Lines returns the header lines "name: value", sorted by name, with one line per value. Names keep
// their case.
func (c *Case) Lines() []string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		for _, v := range c.Headers[name] {
			lines = append(lines, name+": "+v)
		}
	}
	return lines
}

// Destination returns the host and port to which the caller connects: Via, else To, else those of
// the URL with its scheme's default port. An IPv6 address keeps its brackets. It returns an error
// if there is no valid port.
func (c *Case) Destination() (host string, port uint16, err error) {
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
		return "", 0, fmt.Errorf("%q has no port", where)
	}
	number, err := strconv.ParseUint(where[i+1:], 10, 16)
	return where[:i], uint16(number), err
}
