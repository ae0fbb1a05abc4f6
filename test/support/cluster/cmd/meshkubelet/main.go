// meshkubelet runs the Pods of a test cluster as processes of this machine: package kubelet says
// how.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/meshpilot/meshpilot/test/support/cluster/image"
	"github.com/meshpilot/meshpilot/test/support/cluster/kubelet"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == kubelet.InitCommand {
		kubelet.RunContainer(os.Args[2]) // does not return
	}
	if err := rootCommand().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "meshkubelet:", err)
		os.Exit(1)
	}
}

// flags are what Options are made of.
type flags struct {
	kubeconfig, images, listen, apiService, dns string
	nodeIPs, podCIDRs, loadBalancerCIDRs        []string
	options                                     kubelet.Options
}

func rootCommand() *cobra.Command {
	f := &flags{}
	o := &f.options
	cmd := &cobra.Command{
		Use:           "meshkubelet",
		Short:         "Run the Pods of a test cluster as processes",
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			if err := f.readFlags(); err != nil {
				return err
			}
			return kubelet.Run(ctx, f.options)
		},
	}
	set := cmd.Flags()
	set.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of an administrator")
	set.StringVar(&f.images, "images", "", "image map")
	set.StringVar(&o.Dir, "root-dir", "", "where volumes and logs lie")
	set.StringVar(&o.Node, "node-name", "node", "name of the Node")
	set.StringVar(&o.Version, "version", "", "version that the Node names")
	set.StringToStringVar(&o.Labels, "node-labels", nil, "more labels of the Node")
	set.StringSliceVar(&f.nodeIPs, "node-ip", nil, "addresses of the node, one for each family")
	set.StringSliceVar(&f.podCIDRs, "pod-cidr", nil, "ranges of Pods' addresses, one for each family")
	set.StringSliceVar(&f.loadBalancerCIDRs, "load-balancer-cidr", nil, "ranges of load balancers' addresses")
	set.StringVar(&f.dns, "cluster-dns", "", "name server of Pods")
	set.StringVar(&o.Domain, "cluster-domain", "cluster.local", "domain of the cluster")
	set.StringVar(&f.apiService, "api-service", "", "address and port of the Service kubernetes")
	set.StringVar(&f.listen, "listen", "", "address and port of the kubelet's API")
	set.StringVar(&o.CertificateFile, "tls-cert-file", "", "certificate of the kubelet's API")
	set.StringVar(&o.PrivateKeyFile, "tls-private-key-file", "", "its private key")
	set.DurationVar(&o.MaxGrace, "max-grace", 30*time.Second, "bound of grace periods")
	return cmd
}

func (f *flags) readFlags() (err error) {
	o := &f.options
	o.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	if o.Config, err = clientcmd.BuildConfigFromFlags("", f.kubeconfig); err != nil {
		return err
	}
	o.Config.QPS, o.Config.Burst = 500, 1000
	if o.Images, err = image.Read(f.images); err != nil {
		return err
	}
	if o.NodeIPs, err = parseAll(f.nodeIPs, netip.ParseAddr); err != nil {
		return err
	}
	if o.PodCIDRs, err = parseAll(f.podCIDRs, netip.ParsePrefix); err != nil {
		return err
	}
	if o.LoadBalancerCIDRs, err = parseAll(f.loadBalancerCIDRs, netip.ParsePrefix); err != nil {
		return err
	}
	if len(o.NodeIPs) == 0 || len(o.PodCIDRs) != len(o.NodeIPs) {
		return fmt.Errorf("--node-ip %v and --pod-cidr %v must name one for each family", f.nodeIPs, f.podCIDRs)
	}
	if o.DNS, err = netip.ParseAddr(f.dns); err != nil {
		return fmt.Errorf("--cluster-dns: %w", err)
	}
	if o.APIService, err = netip.ParseAddrPort(f.apiService); err != nil {
		return fmt.Errorf("--api-service: %w", err)
	}
	o.Listener, err = (&net.ListenConfig{}).Listen(context.Background(), "tcp", f.listen)
	return err
}

func parseAll[T any](texts []string, parse func(string) (T, error)) ([]T, error) {
	var all []T
	for _, text := range texts {
		one, err := parse(text)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}
