package gatewayapi

import (
	"fmt"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// Ranks of paths: an exact path precedes the path of a gRPC service with any method, which precedes
// a regular expression, which precedes a prefix.
const (
	exactPath = iota
	servicePath
	regexPath
	prefixPath
)

// precedence is how specific a match is. Its order is that of the specification: exact paths, the
// longest prefix, a method, the number of headers, the number of query parameters. Of GRPCRoutes it
// is the longest service, the longest method, the number of headers: length is that of the service
// then, and second that of the method.
type precedence struct {
	path, length   int
	second         int
	method         bool
	headers, query int
}

// text returns the text by which routes are ordered (config.HTTPExtension.Order); more specific
// matches sort first. It compares the kind of path, its lengths, the method, then the numbers of
// headers and of query parameters. Equally specific matches are ordered by the route's age, oldest
// first, then its namespace, name, rule and match.
func (p precedence) text(route *config.Config, rule, match int) string {
	method := 1
	if p.method {
		method = 0
	}
	const most = 99999
	return fmt.Sprintf(
		"%d %05d %05d %d %03d %03d %020d %s/%s %03d %03d",
		p.path,
		most-min(p.length, most),
		most-min(p.second, most),
		method,
		999-min(
			p.headers,
			999,
		),
		999-min(p.query, 999),
		max(route.Created.Unix(), 0),
		route.Namespace,
		route.Name,
		rule,
		match,
	)
}

// ruleName returns the name of a rule in routes, logs and explanations: "namespace.route.rule",
// where rule is its own name or else its index.
func ruleName(route *config.Config, rule int, own *gatewayv1.SectionName) string {
	if own != nil && *own != "" {
		return fmt.Sprintf("%s.%s.%s", route.Namespace, route.Name, *own)
	}
	return fmt.Sprintf("%s.%s.%d", route.Namespace, route.Name, rule)
}
