package environment

import (
	"cmp"
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

// ParseList parses a list of NAME=VALUE such as os.Environ returns. If a name repeats, the last
// value wins. Entries without "=" are ignored.
func ParseList(environ []string) Variables {
	vars := make(Variables, len(environ))
	for _, e := range environ {
		if name, value, ok := strings.Cut(e, "="); ok {
			vars[name] = value
		}
	}
	return vars
}

// WithDefaults returns a copy of the variables, plus the variables in defaults that v does not
// have. A variable with an empty value is not replaced. ProxyConfig.proxyMetadata holds such
// defaults: an injector writes them into the pod as variables, and without an injector they have
// the same effect.
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

// reader parses typed values. It collects the errors and warnings, so that all of them are reported
// at once.
type reader struct {
	vars     Variables
	err      error
	warnings []string
}

// addError records an error of a variable.
func (r *reader) addError(name, format string, args ...any) {
	r.err = errors.Join(r.err, fmt.Errorf("environment variable %s: "+format, append([]any{name}, args...)...))
}

// warnInvalid records a warning that a variable is ignored, because its value is not what is
// wanted.
func (r *reader) warnInvalid(name, value, want string) {
	r.warnings = append(r.warnings,
		fmt.Sprintf("environment variable %s: %q is not %s, and is ignored", name, value, want))
}

// lookupText returns a variable's value without surrounding spaces, and whether it is set. An empty
// value means not set.
func (r *reader) lookupText(name string) (string, bool) {
	value := strings.TrimSpace(r.vars[name])
	return value, value != ""
}

// The read methods return fallback if the variable is not set. Text that is no boolean, number or
// duration is a warning, as in Istio, and counts as not set. Other invalid values are errors.

// readBool returns a boolean (strconv.ParseBool), or fallback if the variable is not set or
// invalid.
func (r *reader) readBool(name string, fallback bool) bool {
	text, ok := r.lookupText(name)
	if !ok {
		return fallback
	}
	value, err := strconv.ParseBool(text)
	if err != nil {
		r.warnInvalid(name, text, "true or false")
		return fallback
	}
	return value
}

// readDuration returns a duration such as 5s, or fallback if the variable is not set, invalid or
// negative.
func (r *reader) readDuration(name string, fallback time.Duration) time.Duration {
	text, ok := r.lookupText(name)
	if !ok {
		return fallback
	}
	value, err := time.ParseDuration(text)
	if err != nil || value < 0 {
		r.warnInvalid(name, text, "a duration such as 5s")
		return fallback
	}
	return value
}

// readPositiveDuration returns the same as readDuration, and also fallback for 0.
func (r *reader) readPositiveDuration(name string, fallback time.Duration) time.Duration {
	return cmp.Or(r.readDuration(name, fallback), fallback)
}

// readSeconds returns a duration in whole seconds, or fallback if the variable is not set, invalid
// or negative.
func (r *reader) readSeconds(name string, fallback time.Duration) time.Duration {
	text, ok := r.lookupText(name)
	if !ok {
		return fallback
	}
	value, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		r.warnInvalid(name, text, "a number of seconds")
		return fallback
	}
	return time.Duration(value) * time.Second
}

// readUint32 returns a number of 32 bits, or fallback if the variable is not set or invalid. It may
// be written with a prefix such as 0x.
func (r *reader) readUint32(name string, fallback uint32) uint32 {
	text, ok := r.lookupText(name)
	if !ok {
		return fallback
	}
	value, err := strconv.ParseUint(text, 0, 32)
	if err != nil {
		r.warnInvalid(name, text, "a number of at most 32 bits")
		return fallback
	}
	return uint32(value)
}

// readFloat returns a number, or fallback if the variable is not set or invalid. NaN is accepted.
func (r *reader) readFloat(name string, fallback float64) float64 {
	text, ok := r.lookupText(name)
	if !ok {
		return fallback
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		r.warnInvalid(name, text, "a number")
		return fallback
	}
	return value
}

// readPort returns a port, or fallback if the variable is not set or no number. Other numbers are
// added to r's errors. It returns them nevertheless.
func (r *reader) readPort(name string, fallback uint32) uint32 {
	value := r.readUint32(name, fallback)
	if value < 1 || value > math.MaxUint16 {
		r.addError(name, "%d is not a port", value)
	}
	return value
}

// readOptionalPort returns a port, or 0 if the variable is not set, no number or 0. Other invalid
// ones are added to r's errors.
func (r *reader) readOptionalPort(name string) uint32 {
	if r.readUint32(name, 0) == 0 {
		return 0
	}
	return r.readPort(name, 0)
}

// readCores parses a Kubernetes CPU quantity as the downward API writes it: whole cores, or
// millicores ("1500m"), which are rounded up. It returns 0 if the variable is not set or invalid.
func (r *reader) readCores(name string) int {
	text, ok := r.lookupText(name)
	if !ok {
		return 0
	}
	digits, thousandths := strings.CutSuffix(text, "m")
	value, err := strconv.ParseUint(digits, 10, 31)
	if err != nil {
		r.warnInvalid(name, text, "a number of cores")
		return 0
	}
	if thousandths {
		value = (value + 999) / 1000
	}
	return int(value)
}

// readAddress returns an IP address, or the zero Addr if the variable is not set or invalid. An
// invalid one is added to r's errors. An IPv4 address mapped to IPv6 is returned as IPv4.
func (r *reader) readAddress(name string) netip.Addr {
	text, ok := r.lookupText(name)
	if !ok {
		return netip.Addr{}
	}
	addr, err := netip.ParseAddr(text)
	if err != nil {
		r.addError(name, "%q is not an IP address", text)
	}
	return addr.Unmap()
}

// readAddressText returns an IP address in canonical form, "" if the variable is not set or
// invalid. An invalid one is added to r's errors.
func (r *reader) readAddressText(name string) string {
	if addr := r.readAddress(name); addr.IsValid() {
		return addr.String()
	}
	return ""
}

// readAddresses parses a comma-separated list from the first of the variables that is set; if none
// is, it returns nil. Invalid entries are left out and added to r's errors. IPv4 addresses mapped
// to IPv6 are returned as IPv4.
func (r *reader) readAddresses(names ...string) []netip.Addr {
	var name, text string
	for _, name = range names {
		var ok bool
		if text, ok = r.lookupText(name); ok {
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
			r.addError(name, "%q is not an IP address", part)
			continue
		}
		list = append(list, addr.Unmap())
	}
	return list
}

// readStringMap returns a JSON object of strings, or nil if the variable is not set. Invalid text
// is added to r's errors.
func (r *reader) readStringMap(name string) map[string]string {
	var m map[string]string
	r.readJSON(name, "a JSON object of strings", &m)
	return m
}

// readJSON decodes a variable into to, and reports whether it is set and valid. Invalid JSON, or
// JSON that to cannot hold, is recorded as an error with the expected form want; to may then be
// partly set.
func (r *reader) readJSON(name, want string, to any) bool {
	text, ok := r.lookupText(name)
	if !ok {
		return false
	}
	if err := json.Unmarshal([]byte(text), to); err != nil {
		r.addError(name, "want "+want+": %w", err)
		return false
	}
	return true
}
