package obs

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
)

const scopeAttr = "scope"

// scopeHandler drops records below its scope's level.
type scopeHandler struct {
	slog.Handler
	level *slog.LevelVar
}

// Enabled reports whether the scope's present level permits records of a level.
func (h *scopeHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level.Level() }

// WithAttrs returns a handler with more attributes and the same level.
func (h *scopeHandler) WithAttrs(a []slog.Attr) slog.Handler {
	return &scopeHandler{Handler: h.Handler.WithAttrs(a), level: h.level}
}

// WithGroup returns a handler for a group of attributes with the same level.
func (h *scopeHandler) WithGroup(name string) slog.Handler {
	return &scopeHandler{Handler: h.Handler.WithGroup(name), level: h.level}
}

// timeLayout is RFC 3339 in microseconds, in UTC.
const timeLayout = "2006-01-02T15:04:05.000000Z"

// usualLine is the length in bytes that few lines exceed.
const usualLine = 256

// textHandler writes Istio's text layout: time, level, scope (unless default), message, and
// attributes as key=value, separated by tabs, the attributes by spaces.
type textHandler struct {
	out    io.Writer
	mu     *sync.Mutex
	scope  string
	attrs  string // already formatted
	prefix string // names of the groups
}

// Enabled returns true: scopeHandler decides.
func (h *textHandler) Enabled(context.Context, slog.Level) bool { return true }

// WithAttrs returns a handler with more attributes. The attribute scope, outside of groups, sets
// the scope instead.
func (h *textHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *h
	b := []byte(h.attrs)
	for _, a := range attrs {
		if a.Key == scopeAttr && h.prefix == "" {
			next.scope = a.Value.String()
			continue
		}
		b = appendAttr(b, h.prefix, a)
	}
	next.attrs = string(b)
	return &next
}

// WithGroup returns a handler that puts the name before the names of further attributes.
func (h *textHandler) WithGroup(name string) slog.Handler {
	next := *h
	next.prefix += name + "."
	return &next
}

// Handle writes a record as one line: time, level, scope unless it is the default, message and
// attributes. They are separated by tabs, several attributes by spaces. Texts are truncated to
// maxLogText, and quoted if they are not printable or ambiguous.
func (h *textHandler) Handle(_ context.Context, r slog.Record) error {
	b := r.Time.UTC().AppendFormat(make([]byte, 0, usualLine), timeLayout)
	b = append(b, '\t')
	b = append(b, levelText(r.Level)...)
	if h.scope != "" && h.scope != DefaultScope {
		b = append(b, '\t')
		b = append(b, h.scope...)
	}
	b = append(b, '\t')
	b = append(b, quoteMessage(r.Message)...)
	before := len(b)
	b = append(b, h.attrs...)
	r.Attrs(func(a slog.Attr) bool {
		b = appendAttr(b, h.prefix, a)
		return true
	})
	if len(b) > before {
		b[before] = '\t' // each attribute begins with a space
	}
	b = append(b, '\n')
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := h.out.Write(b)
	return err
}

// levelText returns the name of a level in lower case, such as "info" or "info+1".
func levelText(l slog.Level) string {
	switch l { // without an allocation
	case slog.LevelDebug:
		return "debug"
	case slog.LevelInfo:
		return "info"
	case slog.LevelWarn:
		return "warn"
	case slog.LevelError:
		return "error"
	default:
		return strings.ToLower(l.String())
	}
}

// appendAttr appends an attribute after a space, as key=value with prefix before the key, each
// quoted if necessary (quoteValue). It appends the members of a group one by one.
func appendAttr(b []byte, prefix string, a slog.Attr) []byte {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		for _, x := range v.Group() {
			b = appendAttr(b, prefix+a.Key+".", x)
		}
		return b
	}
	b = append(b, ' ')
	b = append(b, quoteValue(prefix+a.Key)...)
	b = append(b, '=')
	return append(b, quoteValue(v.String())...)
}
