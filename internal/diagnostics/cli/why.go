package cli

import (
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/diagnostics/readapi"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// whyCommand returns the command that shows what an object does. An object that the control plane
// does not have is an error after the output was printed. In name output it is not listed.
func (a *pageClient) whyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "why KIND/NAME",
		Short: "Show what an object does, for which proxies, and which objects precede it",
		Long: `why shows what an object of the configuration does: what it contains, how many of the connected proxies are served resources that
are generated from it and have acknowledged them, these resources, the objects that take precedence over it or are merged with
it, and its problems. --output wide lists the proxies.

Objects of kinds that the control plane only converts, such as Services and Pods, are shown with what is made from them.
An object that the control plane does not have is an error.`,
		Example: `  pilotctl why virtualservice/reviews -n shop
  pilotctl why destinationrule/reviews -n shop -o wide
  pilotctl why service/reviews -n shop`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			k, err := parseObject(args[0], a.namespace)
			if err != nil {
				return err
			}
			x, err := a.readEffect(c, k)
			if err != nil {
				return err
			}
			if err := a.printEffect(c, k, x); err != nil {
				return err
			}
			if !x.Present {
				return fmt.Errorf("the control plane has no %s", k)
			}
			return nil
		},
	}
}

// printEffect prints the effect of the object k in the format of --output.
func (a *pageClient) printEffect(c *cobra.Command, k config.Key, x *readapi.ObjectEffect) error {
	if a.isTable() {
		return writeEffect(c.OutOrStdout(), k, x, a.output == wideFormat)
	}
	named := answer{whole: x}
	if x.Present {
		named.rows = [][]string{{k.String()}}
	}
	return a.printAnswer(c, named)
}

// readEffect reads the effect of an object, merged from all replicas. Replicas that do not answer
// are warned of; if none answers, it returns an error. An object that does not exist has an effect
// too, with Present false.
func (a *pageClient) readEffect(c *cobra.Command, k config.Key) (*readapi.ObjectEffect, error) {
	path := "/objects/" + url.PathEscape(string(k.Kind)) + "/" + url.PathEscape(k.Name) + "/effect"
	all, err := readAPI[readapi.ObjectEffect](a, c, path, url.Values{"namespace": {k.Namespace}})
	if err != nil {
		return nil, err
	}
	sum := &all[0]
	for _, x := range all[1:] {
		sum.Merge(x)
	}
	warnUnanswered(c, sum.Unanswered)
	return sum, nil
}

// writeEffect writes the effect of the object k: how many proxies use it, the generated resources,
// the related objects and the Problems. It lists the proxies that are behind, and if wide is true
// all that use the object. Empty sections are left out.
func writeEffect(w io.Writer, k config.Key, x *readapi.ObjectEffect, wide bool) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", k, x.Purpose)
	switch {
	case x.Present && x.Generation > 0:
		fmt.Fprintf(&b, "  generation: %d\n", x.Generation)
	case x.Present && x.Origin != "":
		fmt.Fprintf(&b, "  origin: %s\n", x.Origin)
	}
	for _, line := range x.Settings {
		fmt.Fprintf(&b, "  %s\n", line)
	}
	fmt.Fprintf(&b, "proxies: %d of %d are served resources generated from it", x.Proxies, x.Connected)
	if x.Proxies > 0 {
		fmt.Fprintf(&b, ", %d have acknowledged them", x.UpToDate)
	}
	b.WriteString("\n")
	for _, u := range x.Uses {
		if wide || u.Behind != "" {
			fmt.Fprintf(&b, "  %s: %s%s\n", u.Proxy, describeUse(u), ageText(u.Since, time.Now()))
		}
	}
	if len(x.Resources) > 0 {
		b.WriteString("resources:\n")
	}
	for _, r := range x.Resources {
		fmt.Fprintf(&b, "  %s %s (%s)\n", r.Type, r.Name, countProxies(r.Proxies))
	}
	if len(x.Relations) > 0 {
		b.WriteString("other objects:\n")
	}
	for _, r := range x.Relations {
		fmt.Fprintf(&b, "  %s\n", describeRelation(r))
	}
	if len(x.Problems) > 0 {
		b.WriteString("problems:\n")
	}
	for _, p := range x.Problems {
		fmt.Fprintf(&b, "  %s [%s]: %s\n", p.Severity, p.Code, strings.TrimPrefix(p.Field+": "+p.Reason, ": "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// describeUse returns the state of the object's resources at one proxy: why it rejected them, why
// it is behind, or how many it has acknowledged.
func describeUse(u readapi.ObjectUse) string {
	switch {
	case u.Rejected:
		return "rejected: " + u.Behind
	case u.Behind != "":
		return u.Behind
	case u.Resources == 1:
		return "1 resource acknowledged"
	default:
		return fmt.Sprintf("%d resources acknowledged", u.Resources)
	}
}

// countProxies returns "1 proxy" or "N proxies".
func countProxies(n int) string {
	if n == 1 {
		return "1 proxy"
	}
	return fmt.Sprintf("%d proxies", n)
}

// describeRelation returns the relation to another object in one line: "EFFECT KIND/NAMESPACE/NAME
// for ABOUT: REASON". Empty parts are left out.
func describeRelation(r readapi.ObjectRelation) string {
	text := r.Effect + " " + r.Kind
	if r.Namespace != "" {
		text += "/" + r.Namespace
	}
	text += "/" + r.Name
	if r.About != "" {
		text += " for " + r.About
	}
	if r.Reason != "" {
		text += ": " + r.Reason
	}
	return text
}
