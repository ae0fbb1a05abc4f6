package render

import (
	"errors"
	"fmt"

	template "github.com/DataDog/datadog-agent/pkg/template/text"
)

// maxOutput bounds the output of one template in bytes. etcd's limit for objects is 1.5 MiB.
const maxOutput = 8 << 20

// The functions appended to checked actions, which print a scalar, a quoted scalar, or a whole
// value as YAML or JSON. Templates do not call them.
const (
	scalarFunction = "printScalar"
	quotedFunction = "printQuoted"
	wholeFunction  = "printWhole"
)

// Template is a parsed template. It is safe for concurrent use.
type Template struct{ parsed *template.Template }

// Parse parses a template, replaces its method calls (rewriteMethodCalls) and adds the checks of
// values of the pod (addChecks). env is the lookup of the template function env; if nil, no
// variable is set. It returns an error with the template's name if the text is invalid.
func Parse(name, text string, env func(key string) string) (*Template, error) {
	funcs := templateFuncs(env)
	funcs[scalarFunction] = func(v any) any { return v }
	funcs[quotedFunction], funcs[wholeFunction] = funcs[scalarFunction], funcs[scalarFunction]
	funcs[methodFunction] = callMethod
	t, err := template.New(name).Funcs(funcs).Parse(text)
	if err != nil {
		return nil, fmt.Errorf("parse template %q: %w", name, err)
	}
	for _, x := range t.Templates() {
		rewriteMethodCalls(x.Tree, x.Root)
	}
	addChecks(t)
	return &Template{parsed: t}, nil
}

// Execute returns the template's output. It returns an error if the output exceeds maxOutput and,
// with the template's line, if a function fails or a value is invalid there. A clone is executed,
// so that calls may run concurrently.
func (t *Template) Execute(data Data) ([]byte, error) {
	one, err := t.parsed.Clone() // shares the parse tree
	if err != nil {
		return nil, fmt.Errorf("execute template %q: %w", t.parsed.Name(), err)
	}
	w := &writer{}
	one.Funcs(
		template.FuncMap{scalarFunction: w.checkScalar, quotedFunction: w.checkQuoted, wholeFunction: w.escapeWhole},
	)
	if err := one.Execute(w, &data); err != nil {
		return nil, fmt.Errorf("execute template: %w", err)
	}
	return w.out, nil
}

// writer collects the output of a template and tracks the position in the YAML. Write returns an
// error beyond maxOutput.
type writer struct {
	out      []byte
	position position
}

// Write appends p to the output and advances the position. It returns an error, and appends
// nothing, if the output would exceed maxOutput.
func (w *writer) Write(p []byte) (int, error) {
	if len(w.out)+len(p) > maxOutput {
		return 0, errors.New("the template's output is too large")
	}
	w.out = append(w.out, p...)
	for _, c := range p {
		w.position.advance(c)
	}
	return len(p), nil
}
