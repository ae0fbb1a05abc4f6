package render

import (
	"errors"
	"fmt"
	"text/template"
)

// maxOutput bounds what one template may print, in bytes. etcd takes no object above 1.5 MiB.
const maxOutput = 8 << 20

// Checked actions end with one of these: what prints a scalar, a scalar with quotes around it, or a whole value as YAML or JSON.
// Templates do not call them themselves.
const (
	scalarFunction = "printScalar"
	quotedFunction = "printQuoted"
	wholeFunction  = "printWhole"
)

// Template is a parsed template. It is for use by many goroutines.
type Template struct{ parsed *template.Template }

// Parse reads a template. env is what the template function of that name looks up; nil: nothing is set.
func Parse(name, text string, env func(key string) string) (*Template, error) {
	funcs := functions(env)
	funcs[scalarFunction] = func(v any) any { return v }
	funcs[quotedFunction], funcs[wholeFunction] = funcs[scalarFunction], funcs[scalarFunction]
	t, err := template.New(name).Funcs(funcs).Parse(text)
	if err != nil {
		return nil, fmt.Errorf("parse template %q: %w", name, err)
	}
	check(t)
	return &Template{parsed: t}, nil
}

// Execute prints the template. The error names the line of the template, and the value that cannot stand there.
func (t *Template) Execute(data Data) ([]byte, error) {
	one, err := t.parsed.Clone() // shares the parsed text
	if err != nil {
		return nil, fmt.Errorf("run template %q: %w", t.parsed.Name(), err)
	}
	w := &writer{}
	one.Funcs(template.FuncMap{scalarFunction: w.scalar, quotedFunction: w.quoted, wholeFunction: w.whole})
	if err := one.Execute(w, &data); err != nil {
		return nil, fmt.Errorf("run template: %w", err)
	}
	return w.out, nil
}

// writer collects what a template prints, and follows where in the YAML it is.
type writer struct {
	out []byte
	at  position
}

func (w *writer) Write(p []byte) (int, error) {
	if len(w.out)+len(p) > maxOutput {
		return 0, errors.New("the template prints too much")
	}
	w.out = append(w.out, p...)
	for _, c := range p {
		w.at.next(c)
	}
	return len(p), nil
}
