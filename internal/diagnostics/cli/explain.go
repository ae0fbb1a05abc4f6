package cli

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
)

// explainCommand returns the command that shows the path of a call and the objects that determine
// it. With --file it reads a config dump, and uses only the last argument, the URL. Otherwise, with
// one argument it describes response flags instead.
func (a *pageClient) explainCommand() *cobra.Command {
	q := new(callQuestion)
	c := &cobra.Command{
		Use:   "explain NAME[.NAMESPACE] URL | -f FILE URL | STATUS,FLAG",
		Short: "Explain where a proxy sends a call, and which objects decide it",
		Long: "explain follows a call through the configuration that a proxy was sent, and names the objects that decide each step.\n" +
			"The URL is http://host:port/path, https://host, tcp://host:port or tls://server-name:port.\n\n" +
			"With --inbound or --principal it is a call to the workload: the verdict names the policy that allows or denies it. Where\n" +
			"Envoy answers \"RBAC: access denied\", its access log has the details (%RESPONSE_CODE_DETAILS%) with which this command\n" +
			"ends too: rbac_access_denied_matched_policy[ns[shop]-policy[web]-rule[0]] is rule 0 of the AuthorizationPolicy web in shop,\n" +
			"which denies the call; with [none], ALLOW policies exist and none of them matches.\n\n" +
			"The response flags of a call that the proxy answers or closes are those of its access log (%RESPONSE_FLAGS%).\n\n" +
			"Notes say who resolves the host, whether annotations of the pod exclude the connection from capture, and which resources the\n" +
			"proxy has not acknowledged. They name the objects that compete with those of the path, or are merged with them, with the order and the reason:\n" +
			"VirtualServices and HTTPRoutes of the host, DestinationRules, ServiceEntries, Gateways of the port, Sidecars, EnvoyFilters.\n\n" +
			"With --file the call is explained from a config dump, without a control plane: Envoy's own (/config_dump?include_eds), also of a\n" +
			"proxy of another control plane, such as istiod. Hosts are resolved to the addresses of listeners; --to sets another one.\n\n" +
			"With one argument, the status and flags of an access log, it describes what the flags mean and what to look at, without\n" +
			"a control plane. A status alone selects the flags with which it is usual.",
		Example: "  pilotctl explain productpage-v1.default http://reviews:9080/reviews/0 -H 'end-user: jason' --both\n" +
			"  pilotctl explain reviews-v1.default http://reviews:9080/reviews/0 --principal default/bookinfo-productpage\n" +
			"  pilotctl explain reviews-v1.default http://reviews:9080/ --inbound --from 10.1.2.3 --claim groups=readers,writers\n" +
			"  kubectl exec web-1 -c istio-proxy -- pilot-agent request GET config_dump?include_eds > dump.json\n" +
			"  pilotctl explain -f dump.json http://reviews:9080/\n" +
			"  pilotctl explain 503,UF",
		Args: cobra.RangeArgs(1, 2), //nolint:mnd // see Use
		RunE: func(c *cobra.Command, args []string) error {
			if q.dumpFile != "" {
				return a.explainDump(c, q, args[len(args)-1])
			}
			if len(args) == 1 {
				return a.explainFlags(c, args[0])
			}
			query, err := q.queryValues(a.proxyName(args[0]), args[1])
			if err != nil {
				return err
			}
			path, err := a.readPath(c, query)
			if err != nil {
				return err
			}
			return a.printPath(c, path)
		},
	}
	q.addFlags(c.Flags())
	return c
}

// readPath reads the path of a call from the replica of the proxy. If the query has "both", it
// includes the path through the first sidecar that receives the call, perhaps connected to another
// replica. It then adds "callees" to query. If only the callee's path cannot be read, it returns
// the path together with the error.
func (a *pageClient) readPath(c *cobra.Command, query url.Values) (*explain.Path, error) {
	if query.Has("both") {
		query.Set("callees", "")
	}
	path := new(explain.Path)
	if err := a.readPage(c, "explain", query, path); err != nil {
		return nil, err
	}
	defer path.ClearReceived()
	if path.Callee != nil {
		return path, nil
	}
	for _, end := range path.Endings {
		for _, one := range end.Endpoints {
			var err error
			if path.Callee, err = a.calleePath(c, one); err != nil || path.Callee != nil {
				return path, err
			}
		}
	}
	return path, nil
}

// calleePath reads the path of the call that a sidecar at an endpoint receives. It returns nil if no
// connected sidecar has the address, or if the endpoint has no Received.
func (a *pageClient) calleePath(c *cobra.Command, one explain.Endpoint) (*explain.Path, error) {
	if one.Received == nil {
		return nil, nil
	}
	call, err := json.Marshal(one.Received)
	if err != nil {
		return nil, err
	}
	path := new(explain.Path)
	err = a.readPage(c, "explain", url.Values{"call": {string(call)}}, path)
	if isNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("explain the call at the sidecar of %s: %w", one.Address, err)
	}
	return path, nil
}

// printPath prints the path of a call in the format of --output.
func (a *pageClient) printPath(c *cobra.Command, path *explain.Path) error {
	if !a.isTable() {
		return a.printAnswer(c, answer{whole: path})
	}
	_, err := fmt.Fprint(c.OutOrStdout(), path)
	return err
}

// explainFlags prints what the response flags in text mean, a STATUS,FLAG of an access log. It
// returns an error if text is none. Output other than a table has the list as it is.
func (a *pageClient) explainFlags(c *cobra.Command, text string) error {
	list, err := explain.FindResponseFlags(text)
	if err != nil {
		return fmt.Errorf("explain %q (a call needs a proxy and a URL): %w", text, err)
	}
	if !a.isTable() {
		return a.printAnswer(c, answer{whole: list})
	}
	for _, f := range list {
		if _, err := fmt.Fprint(c.OutOrStdout(), f); err != nil {
			return err
		}
	}
	return nil
}

// callQuestion is the call that the flags describe.
type callQuestion struct {
	headers, claims []string
	inbound, both   bool
	tokenFile       string
	// dumpFile is a config dump that is read instead of asking a control plane.
	dumpFile string
	said     map[string]*string // the other flags, by the page's parameter names
}

// addFlags registers the flags that describe a call on fs, and sets q.said. The keys of q.said are
// names of flags that are also query parameters of the debug page explain.
func (q *callQuestion) addFlags(fs *pflag.FlagSet) {
	fs.StringArrayVarP(&q.headers, "header", "H", nil, "a header of the request, \"name: value\"")
	fs.StringVarP(&q.dumpFile, "file", "f", "",
		"explain from a config dump of Envoy or of a control plane, - is the standard input")
	fs.BoolVar(&q.inbound, "inbound", false, "explain an inbound call to the proxy's workload")
	fs.BoolVar(&q.both, "both", false, "also explain the call at the workload that receives it")
	fs.StringArrayVar(
		&q.claims,
		"claim",
		nil,
		"a claim of a token that is assumed to be valid, name=value, name=value,value or outer.inner=value",
	)
	fs.StringVar(
		&q.tokenFile,
		"token",
		"",
		"file with the token of the request; its signature and times are checked",
	)
	q.said = map[string]*string{
		"method":   fs.StringP("method", "X", "", "the method of the request (default GET)"),
		"protocol": fs.String("protocol", "", "h2c for HTTP/2, http/1.0"),
		"to": fs.String(
			"to",
			"",
			"destination, address:port (default: the address to which the proxy resolves the URL's host)",
		),
		"principal": fs.String(
			"principal",
			"",
			"identity of the caller, by mutual TLS: cluster.local/ns/NAMESPACE/sa/ACCOUNT, or NAMESPACE/ACCOUNT (implies --inbound)",
		),
		"from": fs.String("from", "", "the caller's address"),
		"authorizer": fs.String(
			"authorizer",
			"",
			"answer of external authorizers: allow, deny, or fail for no answer (default allow)",
		),
	}
}

// headersWithToken returns q.headers, followed by "authorization: Bearer TOKEN" if a token file is
// set. The token is the file's text without surrounding space. It returns an error if the file
// cannot be read.
func (q *callQuestion) headersWithToken() ([]string, error) {
	if q.tokenFile == "" {
		return q.headers, nil
	}
	text, err := os.ReadFile(q.tokenFile)
	if err != nil {
		return nil, fmt.Errorf("reading the token: %w", err)
	}
	return append(q.headers, "authorization: Bearer "+strings.TrimSpace(string(text))), nil
}

// queryValues returns the query parameters for the debug page explain. Options that are not set are
// left out. It returns an error if the token file cannot be read.
func (q *callQuestion) queryValues(proxy, target string) (url.Values, error) {
	headers, err := q.headersWithToken()
	if err != nil {
		return nil, err
	}
	values := url.Values{"proxyID": {proxy}, "url": {target}, "header": headers, "claim": q.claims}
	for name, value := range q.said {
		if *value != "" {
			values.Set(name, *value)
		}
	}
	for name, on := range map[string]bool{"inbound": q.inbound, "both": q.both} {
		if on {
			values.Set(name, "")
		}
	}
	return values, nil
}
