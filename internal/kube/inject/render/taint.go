package render

import (
	"maps"
	"slices"
	"text/template/parse"

	template "github.com/DataDog/datadog-agent/pkg/template/text"
)

// origin is the source of a value: the operator, the pod, or the whole Data, whose fields belong to
// either. A value derived from several is the pod's.
type origin int

const (
	fromOperator origin = iota
	fromData
	fromPod
)

// addChecks appends a check to every action that prints a value of the pod, in the parse trees of
// t. The check is wholeFunction for actions that encode the value (printsEncoded), quotedFunction
// after quoting (endsWithQuote), and otherwise scalarFunction. Templates that are not called from
// the main one are left unchecked.
func addChecks(t *template.Template) {
	w := &taintAnalysis{
		templates: map[string]*parse.Tree{},
		variables: map[string]origin{},
		found:     map[*parse.ActionNode]*parse.Tree{},
	}
	for _, x := range t.Templates() {
		w.templates[x.Name()] = x.Tree
	}
	for { // a loop may print a variable that is assigned later in its body
		before := maps.Clone(w.variables)
		w.called = map[templateCall]bool{}
		w.analyzeTemplate(templateCall{t.Name(), fromData})
		if maps.Equal(before, w.variables) {
			break
		}
	}
	for action, tree := range w.found {
		name := scalarFunction
		switch {
		case printsEncoded(action.Pipe):
			name = wholeFunction
		case endsWithQuote(action.Pipe):
			name = quotedFunction
		}
		function := parse.NewIdentifier(name).SetPos(action.Pos).SetTree(tree)
		action.Pipe.Cmds = append(
			action.Pipe.Cmds,
			&parse.CommandNode{NodeType: parse.NodeCommand, Pos: action.Pos, Args: []parse.Node{function}},
		)
	}
}

// templateCall is a template executed with a dot of this origin.
type templateCall struct {
	template string
	dot      origin
}

// taintAnalysis determines the origins of values in a template. It tracks variables by name only:
// if one holds a value of the pod anywhere, it is treated so everywhere.
type taintAnalysis struct {
	templates map[string]*parse.Tree
	variables map[string]origin
	called    map[templateCall]bool
	found     map[*parse.ActionNode]*parse.Tree // with the tree of each
}

// analyzeTemplate analyzes a template that is called with a dot of this origin. It does nothing for
// an unknown template, or if the same call was analyzed before in this round.
func (w *taintAnalysis) analyzeTemplate(c templateCall) {
	t := w.templates[c.template]
	if t == nil || t.Root == nil || w.called[c] {
		return
	}
	w.called[c] = true
	w.analyzeList(scope{tree: t, root: c.dot, dot: c.dot}, t.Root)
}

// scope contains the origins of $ and of the dot at one position in a template.
type scope struct {
	tree      *parse.Tree
	root, dot origin
}

// analyzeList analyzes all nodes of a list in the scope. It does nothing if l is nil.
func (w *taintAnalysis) analyzeList(s scope, l *parse.ListNode) {
	if l == nil {
		return
	}
	for _, n := range l.Nodes {
		w.analyzeNode(s, n)
	}
}

// analyzeNode analyzes a node and those below it. It records in found the actions that print a
// value which may come from the pod. It records in variables the origins of assigned variables.
func (w *taintAnalysis) analyzeNode(s scope, n parse.Node) {
	switch n := n.(type) {
	case *parse.ListNode:
		w.analyzeList(s, n)
	case *parse.ActionNode:
		from := w.pipeOrigin(s, n.Pipe)
		if len(n.Pipe.Decl) == 0 && from != fromOperator {
			w.found[n] = s.tree
		}
	case *parse.IfNode:
		w.pipeOrigin(s, n.Pipe)
		w.analyzeList(s, n.List)
		w.analyzeList(s, n.ElseList)
	case *parse.WithNode:
		inner := s
		inner.dot = w.pipeOrigin(s, n.Pipe)
		w.analyzeList(inner, n.List)
		w.analyzeList(s, n.ElseList)
	case *parse.RangeNode:
		inner := s
		inner.dot = w.pipeOrigin(s, n.Pipe)
		w.analyzeList(inner, n.List)
		w.analyzeList(s, n.ElseList)
	case *parse.TemplateNode:
		dot := fromOperator
		if n.Pipe != nil {
			dot = w.pipeOrigin(s, n.Pipe)
		}
		w.analyzeTemplate(templateCall{n.Name, dot})
	}
}

// pipeOrigin returns the origin of a pipeline's value and records it for assigned variables. A
// variable keeps the highest origin that it ever had. Without a pipeline it returns fromOperator.
func (w *taintAnalysis) pipeOrigin(s scope, p *parse.PipeNode) origin {
	if p == nil {
		return fromOperator
	}
	from := fromOperator
	for _, c := range p.Cmds {
		from = max(from, w.commandOrigin(s, c))
	}
	for _, v := range p.Decl {
		w.variables[v.Ident[0]] = max(w.variables[v.Ident[0]], from)
	}
	return from
}

// commandOrigin returns the origin of a command's value: that of its only operand. With several
// operands it returns fromPod, unless all come from the operator.
func (w *taintAnalysis) commandOrigin(s scope, c *parse.CommandNode) origin {
	if len(c.Args) == 1 {
		return w.valueOrigin(s, c.Args[0])
	}
	from := fromOperator
	for _, a := range c.Args {
		if x := w.valueOrigin(s, a); x != fromOperator {
			from = fromPod // a function of the whole Data may return any value
		}
	}
	return from
}

// valueOrigin returns where the value of an operand may come from. Literals and functions without
// arguments come from the operator. Fields and variables have the origin of what they are part of.
func (w *taintAnalysis) valueOrigin(s scope, n parse.Node) origin {
	switch n := n.(type) {
	case *parse.DotNode:
		return s.dot
	case *parse.FieldNode:
		return fieldOrigin(s.dot, n.Ident)
	case *parse.VariableNode:
		from := w.variables[n.Ident[0]]
		if n.Ident[0] == "$" {
			from = s.root
		}
		return fieldOrigin(from, n.Ident[1:])
	case *parse.ChainNode:
		return fieldOrigin(w.valueOrigin(s, n.Node), n.Field)
	case *parse.PipeNode:
		return w.pipeOrigin(s, n)
	}
	return fromOperator // literals and functions without arguments
}

// fieldOrigin returns the origin of a field of a value, whose path is names. Fields of the whole
// Data are from the operator or the pod by isOperatorField; any other value has one origin for all
// its fields.
func fieldOrigin(of origin, names []string) origin {
	switch {
	case of != fromData || len(names) == 0:
		return of
	case isOperatorField(names[0]):
		return fromOperator
	}
	return fromPod
}

// printsEncoded reports whether a pipeline prints a whole value as YAML or JSON, at most indented
// or trimmed, which needs escaping only inside quotes. It returns false for an empty pipeline and
// for any other function in it.
func printsEncoded(p *parse.PipeNode) bool {
	for i, c := range p.Cmds {
		name := ""
		switch first := c.Args[0].(type) {
		case *parse.IdentifierNode:
			name = first.Ident
		case *parse.PipeNode:
			if i == 0 && len(c.Args) == 1 && printsEncoded(first) {
				continue
			}
		}
		if i == 0 && !slices.Contains([]string{
			"toYaml",
			"toJSON",
			"toJson",
			"toRawJson",
			"toPrettyJson",
			"mustToJson",
			"mustToRawJson",
			"mustToPrettyJson",
			"structToJSON",
			"protoToJSON",
			"toJsonMap",
		}, name) {
			return false
		}
		if i > 0 && !slices.Contains([]string{"indent", "nindent", "trim"}, name) {
			return false
		}
	}
	return len(p.Cmds) > 0
}

// endsWithQuote reports whether a pipeline, which must not be empty, ends with the function quote
// or squote.
func endsWithQuote(p *parse.PipeNode) bool {
	last, ok := p.Cmds[len(p.Cmds)-1].Args[0].(*parse.IdentifierNode)
	return ok && (last.Ident == "quote" || last.Ident == "squote")
}
