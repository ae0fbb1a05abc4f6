package obs

import (
	"bytes"
	"context"
	"fmt"
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
	var b bytes.Buffer
	b.WriteString(h.attrs)
	for _, a := range attrs {
		if a.Key == scopeAttr && h.prefix == "" {
			next.scope = a.Value.String()
			continue
		}
		writeAttr(&b, h.prefix, a)
	}
	next.attrs = b.String()
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
	var b bytes.Buffer
	b.WriteString(r.Time.UTC().Format(timeLayout))
	b.WriteByte('\t')
	b.WriteString(strings.ToLower(r.Level.String()))
	if h.scope != "" && h.scope != DefaultScope {
		b.WriteByte('\t')
		b.WriteString(h.scope)
	}
	b.WriteByte('\t')
	b.WriteString(quoteMessage(r.Message))
	before := b.Len()
	b.WriteString(h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		writeAttr(&b, h.prefix, a)
		return true
	})
	if b.Len() > before {
		b.Bytes()[before] = '\t' // each attribute begins with a space
	}
	b.WriteByte('\n')
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := h.out.Write(b.Bytes())
	return err
}

// writeAttr writes an attribute after a space, as key=value with prefix before the key, each quoted
// if necessary (quoteValue). It writes the members of a group one by one.
func writeAttr(b *bytes.Buffer, prefix string, a slog.Attr) {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		for _, x := range v.Group() {
			writeAttr(b, prefix+a.Key+".", x)
		}
		return
	}
	fmt.Fprintf(b, " %s=%s", quoteValue(prefix+a.Key), quoteValue(v.String()))
}
