package cli

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/diagnostics/readapi"
)

// certificatesCommand returns the command that lists the certificates that the control plane knows.
// --namespace keeps only certificates of that namespace, so certificates without one are left out.
// Replicas that do not answer are warned of.
func (a *pageClient) certificatesCommand() *cobra.Command {
	return &cobra.Command{
		Use: "certificates", Aliases: []string{"certs"}, Args: cobra.NoArgs,
		Short: "List roots, the authority's certificates, those in Secrets and those of workloads, with their expiry",
		Long: "certificates lists the certificates that the control plane knows: the roots of the mesh, the authority's signing certificate\n" +
			"with its intermediates, the certificate of the control plane's own ports, those in Secrets and ConfigMaps that Gateways and\n" +
			"DestinationRules name, and the newest one that was issued to each identity since the replicas started. STATE is expiring if a\n" +
			"tenth of the lifetime is left, at most 30 days: certificates of the mesh are renewed before that.\n\n" +
			"pilotctl proxy-config secret shows the certificates that one proxy has.",
		RunE: func(c *cobra.Command, _ []string) error {
			all, err := readAPI[readapi.CertificateList](a, c, "/certificates", url.Values{})
			if err != nil {
				return err
			}
			list := all[0]
			list.Merge(all[1:]...)
			warnUnanswered(c, list.Unanswered)
			if a.namespace != "" {
				list.Certificates = slices.DeleteFunc(list.Certificates, func(x readapi.Certificate) bool {
					return x.Namespace != a.namespace
				})
			}
			return a.printAnswer(c, certificateTable(list))
		},
	}
}

// certificateTable returns the table of certificates. The last four columns are wide. Missing
// values are "-".
func certificateTable(list readapi.CertificateList) answer {
	x := answer{
		whole: list, header: "USE\tNAME\tSTATE\tEXPIRES\tOBJECT\tREPLICA\tSERIAL\tISSUER\tNAMES\tFROM", wide: 4,
		none: "no certificates", name: func(row []string) string { return row[1] },
	}
	for _, c := range list.Certificates {
		object := "-"
		if c.Object != nil {
			object = sourceText(*c.Object)
		}
		var from []string
		for _, o := range c.From {
			from = append(from, sourceText(o))
		}
		x.rows = append(x.rows, []string{
			string(c.Use), c.Name, string(c.State), c.NotAfter.UTC().Format(time.RFC3339), object,
			cmp.Or(c.Replica, "-"),
			c.Serial, cmp.Or(c.Issuer, "-"), cmp.Or(strings.Join(c.Names, ","), "-"),
			cmp.Or(strings.Join(from, ","), "-"),
		})
	}
	return x
}

// sourceText returns an object as KIND/NAMESPACE/NAME, without a namespace as KIND/NAME.
func sourceText(o readapi.Source) string {
	if o.Namespace == "" {
		return o.Kind + "/" + o.Name
	}
	return o.Kind + "/" + o.Namespace + "/" + o.Name
}
