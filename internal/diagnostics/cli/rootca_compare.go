package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

// rootsSecret is the name of the secret with the roots of the mesh in Envoy.
const rootsSecret = "ROOTCA"

// rootCACompare returns the command that compares the roots of two proxies byte by byte. An
// argument that is an existing file is read as a dump. Differing or missing roots are an error.
func (a *pageClient) rootCACompare() *cobra.Command {
	return &cobra.Command{
		Use: "rootca-compare POD[.NAMESPACE] POD[.NAMESPACE]", Args: cobra.ExactArgs(2), //nolint:mnd // see Use
		Short: "Compare the root certificates of two proxies",
		Long: "rootca-compare compares the root certificates by which two Envoys verify others. Without common ones, mutual TLS between them\n" +
			"fails. Each argument is a pod of the kubeconfig's cluster, or a file with Envoy's config_dump. The exit code is 1 if they differ.",
		Example: "  pilotctl rootca-compare web-1.shop reviews-1.shop",
		RunE: func(c *cobra.Command, args []string) error {
			var roots [2][]byte
			for i, arg := range args {
				s := selection{envoy: true}
				if _, err := os.Stat(arg); err == nil {
					s = selection{file: arg}
				}
				d, err := a.readDump(c, []string{arg}, s)
				if err != nil {
					return fmt.Errorf("%s: %w", arg, err)
				}
				for _, secret := range d.Secrets {
					if secret.Name == rootsSecret && !secret.warming {
						roots[i] = bytes.TrimSpace(secret.ValidationContext.TrustedCA.contents())
					}
				}
				if len(roots[i]) == 0 {
					return fmt.Errorf("%s: Envoy has no secret %s", arg, rootsSecret)
				}
			}
			if !bytes.Equal(roots[0], roots[1]) {
				return errors.New("the root certificates of " + args[0] + " and " + args[1] + " differ")
			}
			_, err := fmt.Fprintf(c.OutOrStdout(), "%s and %s have the same root certificates\n", args[0], args[1])
			return err
		},
	}
}
