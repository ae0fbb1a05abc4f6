package cli

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
)

// explainDump prints the path of a call through the configuration in a config dump. It adds notes
// if no listener has the host's address, and if the dump has no endpoints. It refuses --both, for
// which the resources of another proxy are needed. An unreadable dump or token file, or an invalid
// call, is an error.
func (a *pageClient) explainDump(c *cobra.Command, q *callQuestion, target string) error {
	if q.both {
		return errors.New("--both needs a control plane: a config dump has the configuration of one proxy")
	}
	body, err := readFile(c, q.dumpFile)
	if err != nil {
		return err
	}
	dump, err := explain.ReadConfigDump(body)
	if err != nil {
		return err
	}
	headers, err := q.headersWithToken()
	if err != nil {
		return err
	}
	question := explain.Question{
		URL: target, Method: *q.said["method"], Headers: headers, Protocol: *q.said["protocol"], To: *q.said["to"],
		Inbound: q.inbound, Principal: *q.said["principal"], From: *q.said["from"], Claims: q.claims,
		Authorizer: *q.said["authorizer"],
	}
	site := dump.Site()
	site.Now = time.Now()
	call, err := explain.ParseCall(question, site)
	if err != nil {
		return err
	}
	path, err := explain.Explain(&dump.Resources, call)
	if err != nil {
		return err
	}
	if call.To.Addr() == netip.MustParseAddr(explain.UnresolvedAddress) && call.Direction == explain.Outbound {
		path.Notes = append(path.Notes, fmt.Sprintf(
			"no listener has an address of %s: the placeholder %s is used; --to sets another one", question.Host(), explain.UnresolvedAddress))
	}
	if !dump.HasEndpoints {
		path.Notes = append(path.Notes, "the dump has no endpoints: read /config_dump?include_eds")
	}
	return a.printPath(c, path)
}
