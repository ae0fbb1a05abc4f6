package environment

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Variables are environment variables by name.
type Variables map[string]string

// List takes a list of NAME=VALUE, as os.Environ gives it, apart. Of several values of one name the last counts.
func List(environ []string) Variables {
	vars := make(Variables, len(environ))
	for _, e := range environ {
		if name, value, ok := strings.Cut(e, "="); ok {
			vars[name] = value
		}
	}
	return vars
}

// WithDefaults gives the variables and, of defaults, those that are not among them. ProxyConfig.proxyMetadata is such
// defaults: an injector writes it into the pod as variables, and where there is no injector it counts the same.
func (v Variables) WithDefaults(defaults map[string]string) Variables {
	out := make(Variables, len(v)+len(defaults))
	for name, value := range defaults {
		out[name] = value
	}
	for name, value := range v {
		out[name] = value
	}
	return out
}

// reader reads typed values, and collects what is wrong with them: all of it is reported at once.
type reader struct {
	vars Variables
	err  error
}

func (r *reader) fail(name, format string, args ...any) {
	r.err = errors.Join(r.err, fmt.Errorf("environment variable %s: "+format, append([]any{name}, args...)...))
}

// text gives a variable's value; an empty value counts as not set.
func (r *reader) text(name string) (string, bool) {
	value := strings.TrimSpace(r.vars[name])
	return value, value != ""
}

func (r *reader) boolean(name string, otherwise bool) bool {
	text, ok := r.text(name)
	if !ok {
		return otherwise
	}
	value, err := strconv.ParseBool(text)
	if err != nil {
		r.fail(name, "%q is neither true nor false", text)
	}
	return value
}

func (r *reader) duration(name string, otherwise time.Duration) time.Duration {
	text, ok := r.text(name)
	if !ok {
		return otherwise
	}
	value, err := time.ParseDuration(text)
	if err != nil || value < 0 {
		r.fail(name, "%q is not a duration such as 5s", text)
	}
	return value
}

func (r *reader) seconds(name string, otherwise time.Duration) time.Duration {
	text, ok := r.text(name)
	if !ok {
		return otherwise
	}
	value, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		r.fail(name, "%q is not a number of seconds", text)
	}
	return time.Duration(value) * time.Second
}

func (r *reader) number(name string, otherwise uint32) uint32 {
	text, ok := r.text(name)
	if !ok {
		return otherwise
	}
	value, err := strconv.ParseUint(text, 0, 32)
	if err != nil {
		r.fail(name, "%q is not a number of at most 32 bits", text)
	}
	return uint32(value)
}

func (r *reader) float(name string, otherwise float64) float64 {
	text, ok := r.text(name)
	if !ok {
		return otherwise
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		r.fail(name, "%q is not a number", text)
	}
	return value
}

func (r *reader) port(name string, otherwise uint32) uint32 {
	value := r.number(name, otherwise)
	if value < 1 || value > math.MaxUint16 {
		r.fail(name, "%d is not a port", value)
	}
	return value
}

// cores reads a Kubernetes CPU quantity as the downward API writes it: whole cores, or thousandths ("1500m").
func (r *reader) cores(name string) int {
	text, ok := r.text(name)
	if !ok {
		return 0
	}
	digits, thousandths := strings.CutSuffix(text, "m")
	value, err := strconv.ParseUint(digits, 10, 31)
	if err != nil {
		r.fail(name, "%q is not a number of cores", text)
	}
	if thousandths {
		value = (value + 999) / 1000
	}
	return int(value)
}

func (r *reader) address(name string) netip.Addr {
	text, ok := r.text(name)
	if !ok {
		return netip.Addr{}
	}
	addr, err := netip.ParseAddr(text)
	if err != nil {
		r.fail(name, "%q is not an IP address", text)
	}
	return addr.Unmap()
}

// host reads an address that is put into text.
func (r *reader) host(name string) string {
	if addr := r.address(name); addr.IsValid() {
		return addr.String()
	}
	return ""
}

// addresses reads a comma-separated list from the first of the variables that is set.
func (r *reader) addresses(names ...string) []netip.Addr {
	var name, text string
	for _, name = range names {
		var ok bool
		if text, ok = r.text(name); ok {
			break
		}
	}
	if text == "" {
		return nil
	}
	var list []netip.Addr
	for part := range strings.SplitSeq(text, ",") {
		addr, err := netip.ParseAddr(strings.TrimSpace(part))
		if err != nil {
			r.fail(name, "%q is not an IP address", part)
			continue
		}
		list = append(list, addr.Unmap())
	}
	return list
}

// object reads a JSON object of strings.
func (r *reader) object(name string) map[string]string {
	text, ok := r.text(name)
	if !ok {
		return nil
	}
	var m map[string]string
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		r.fail(name, "want a JSON object of strings: %w", err)
	}
	return m
}
