package config

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/env"
	"github.com/google/cel-go/common/types"
)

// maxExpression is the maximum length of a CEL expression in bytes.
const maxExpression = 4096

// celAttributes returns the root names of Envoy's attributes, which expressions can reference.
func celAttributes() []string {
	return []string{
		"request",
		"response",
		"connection",
		"upstream",
		"source",
		"destination",
		"metadata",
		"filter_state",
		"upstream_filter_state",
		"xds",
	}
}

// celEnvironment declares Envoy's attributes and the functions that Envoy 1.40 accepts. It excludes
// string() and the macros that loop over lists (exists, map and similar ones). Attributes have a
// dynamic type, because Envoy determines their types when it evaluates the expression.
var celEnvironment = sync.OnceValues(func() (*cel.Env, error) {
	subset := env.NewLibrarySubset().AddIncludedMacros("has").AddExcludedFunctions(env.NewFunction("string"))
	options := []cel.EnvOption{cel.StdLib(cel.StdLibSubset(subset))}
	for _, name := range celAttributes() {
		options = append(options, cel.Variable(name, cel.DynType))
	}
	text := func(name string, arguments int) cel.EnvOption {
		takes := make([]*cel.Type, arguments)
		for i := range takes {
			takes[i] = cel.StringType
		}
		return cel.Function(name, cel.Overload(strings.ReplaceAll(name, ".", "_"), takes, cel.StringType))
	}
	return cel.NewCustomEnv(append(options, text("re.extract", 3), text("re.capture", 2))...)
})

// conditionFault returns why a CEL expression cannot be used as a condition in Envoy, or "" if it
// can. It must be valid for celType, and its type must be bool or dynamic.
func conditionFault(expression string) string {
	t, fault := celType(expression)
	if fault == "" && !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return fmt.Sprintf("is of type %s, not true or false", t)
	}
	return fault
}

// TagExpression returns the CEL expression for the value of a metric's tag in the form that Envoy
// accepts, and "". If Envoy would refuse it (celType), or it contains ")%" or "):N%", expression is
// "" and fault is the reason. It removes an outer string(), because Istio's documentation uses
// string(destination.port). Envoy has no string() and converts any value to text.
func TagExpression(value string) (expression, fault string) {
	expression = withoutString(value)
	if _, fault := celType(expression); fault != "" {
		return "", fault
	}
	if endsCommand.MatchString(expression) {
		return "", `has ")%", which Envoy takes for the end of the expression: write a space between`
	}
	return expression, ""
}

// endsCommand matches the text that ends %CEL(…)% in a format, wherever it occurs.
var endsCommand = regexp.MustCompile(`\)(:[0-9]+)?%`)

// withoutString returns x, formatted by the CEL library, for an expression that is string(x) as a
// whole. Other expressions, and expressions that cannot be parsed, are returned unchanged.
func withoutString(expression string) string {
	e, err := cel.NewCustomEnv()
	if err != nil {
		return expression
	}
	parsed, issues := e.Parse(expression)
	if issues.Err() != nil {
		return expression
	}
	root := parsed.NativeRep().Expr()
	if root.Kind() != ast.CallKind || root.AsCall().IsMemberFunction() || root.AsCall().FunctionName() != "string" ||
		len(root.AsCall().Args()) != 1 {
		return expression
	}
	inner, err := cel.ExprToString(root.AsCall().Args()[0], parsed.NativeRep().SourceInfo())
	if err != nil {
		return expression
	}
	return inner
}

// celType returns the type of the result of an expression, and "". If Envoy would refuse the
// expression, the second value is the reason: more than maxExpression bytes, a compile error (the
// first), or an invalid literal regular expression. Only with the last of these the type is not
// nil.
func celType(expression string) (*cel.Type, string) {
	if len(expression) > maxExpression {
		return nil, fmt.Sprintf("has %d bytes, at most %d are allowed", len(expression), maxExpression)
	}
	e, err := celEnvironment()
	if err != nil {
		return nil, err.Error()
	}
	checked, issues := e.Compile(expression)
	if issues.Err() != nil {
		first := issues.Errors()[0]
		message, _, _ := strings.Cut(
			strings.NewReplacer("\n", " ", " (in container '')", "").Replace(first.Message),
			" expecting ",
		)
		return nil, fmt.Sprintf("is not an expression that proxies can evaluate: at column %d: %s%s",
			first.Location.Column()+1, message, celHint(message))
	}
	return checked.OutputType(), patternFault(checked)
}

// patternFault returns the fault (regexpFault) of the first invalid literal regular expression that
// checked passes to matches(), or "". Envoy compiles literal expressions when it loads the
// configuration.
func patternFault(checked *cel.Ast) string {
	fault := ""
	ast.PostOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != "matches" || len(e.AsCall().Args()) == 0 {
			return
		}
		pattern := e.AsCall().Args()[len(e.AsCall().Args())-1]
		if pattern.Kind() != ast.LiteralKind {
			return
		}
		if text, ok := pattern.AsLiteral().(types.String); ok {
			if _, f := regexpFault(string(text)); f != "" && fault == "" {
				fault = f
			}
		}
	}))
	return fault
}

// celHint returns a hint in parentheses, after a space, for an error about certain undeclared
// names, or "". These names exist only in Istio's own build of Envoy, or are part of CEL that Envoy
// excludes.
func celHint(message string) string {
	for _, h := range []struct{ name, instead string }{
		{"node", "the proxy's node is xds.node"},
		{"upstream_peer", "of a peer, proxies know the certificate: upstream.uri_san_peer_certificate"},
		{"downstream_peer", "of a peer, proxies know the certificate: connection.uri_san_peer_certificate"},
		{"cluster_name", "the name is xds.cluster_name"},
		{"route_name", "the name is xds.route_name"},
		{"listener_metadata", "the metadata is xds.listener_metadata"},
		{"exists", "Envoy evaluates nothing for each element of a list or map"},
		{"all", "Envoy evaluates nothing for each element of a list or map"},
		{"string", "Envoy does not turn values into strings inside an expression"},
	} {
		if strings.Contains(message, "undeclared reference to '"+h.name+"'") {
			return " (" + h.instead + ")"
		}
	}
	return ""
}
