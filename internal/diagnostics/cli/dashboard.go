package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshpilot/meshpilot/internal/diagnostics/connect"
	"github.com/meshpilot/meshpilot/internal/kube"
)

// dashboardPage is a web page of a pod.
type dashboardPage struct {
	name, title string
	// selector finds the pod in --istioNamespace; if it is empty, the argument names the pod.
	selector string
	port     int
	path     string
}

// dashboardPages returns the pages that can be forwarded. A page without a selector is one of a pod
// that the user names. The labels of the programs beside the control plane are set by their charts.
func dashboardPages() []dashboardPage {
	const ctrlzPort = 9876
	return []dashboardPage{
		{"envoy", "Envoy's admin pages of a pod", "", adminPort, "/"},
		{"proxy", "Envoy's admin pages of a pod", "", adminPort, "/"},
		{"istiod-debug", "the debug pages of the control plane", "app=istiod", 8080, "/debug/"},
		{"console", "the web console of the control plane", "app=istiod", 8080, "/ui/"},
		{"controlz", "the ControlZ pages of the control plane", "app=istiod", ctrlzPort, "/"},
		{"prometheus", "Prometheus", "app.kubernetes.io/name=prometheus", 9090, "/"},
		{"grafana", "Grafana", "app.kubernetes.io/name=grafana", 3000, "/"},
		{"kiali", "Kiali", "app=kiali", 20001, "/kiali"},
		{"jaeger", "Jaeger", "app=jaeger", 16686, "/"},
		{"zipkin", "Zipkin", "app=zipkin", 9411, "/"},
	}
}

// dashboardCommand returns the command "dashboard" with a subcommand for each of dashboardPages,
// which forwards a port of a pod to this machine (openDashboard). A page without a selector needs
// the name of a pod. "proxy" is hidden.
func (a *pageClient) dashboardCommand() *cobra.Command {
	parent := &cobra.Command{Use: "dashboard", Aliases: []string{"dash", "d"},
		Short: "Forward a web page of a pod to this machine, and print its URL"}
	var list []*cobra.Command
	for _, page := range dashboardPages() {
		use, args := page.name+" POD[.NAMESPACE]", cobra.ExactArgs(1)
		if page.selector != "" {
			use, args = page.name, cobra.NoArgs
		}
		list = append(list, &cobra.Command{
			Use: use, Args: args, Short: "Forward " + page.title +
				", and print the URL until the command is interrupted",
			Hidden: page.name == "proxy",
			RunE:   func(c *cobra.Command, args []string) error { return a.openDashboard(c, page, args) },
		})
	}
	return groupCommand(parent, list...)
}

// openDashboard forwards the port of a page, prints its URL and blocks. It forwards to a pod that
// page.selector selects, or without a selector to the pod that args names. It returns nil when the
// command is interrupted, and an error if the port-forward ends.
func (a *pageClient) openDashboard(c *cobra.Command, page dashboardPage, args []string) error {
	client, err := a.options().Client()
	if err != nil {
		return err
	}
	defer client.HTTP.CloseIdleConnections()
	var name, namespace string
	if page.selector == "" {
		name, namespace = a.objectName(args[0])
	} else {
		namespace = a.Namespace
		if name, err = a.podOf(c.Context(), client, page); err != nil {
			return err
		}
	}
	forward := connect.NewForwarder(client.Config, namespace, name, page.port)
	defer forward.Close()
	address, ended, err := forward.Listen(c.Context())
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(c.OutOrStdout(), "http://%s%s\n", address, page.path); err != nil {
		return err
	}
	select {
	case <-c.Context().Done():
		return nil
	case <-ended:
		return fmt.Errorf("the port-forward to pod %s/%s has ended", namespace, name)
	}
}

// podOf returns the name of the first running pod with the labels of a page in the control plane's
// namespace, or an error if there is none. With --revision, the control plane's pods must also have
// that revision.
func (a *pageClient) podOf(ctx context.Context, client *kube.Client, page dashboardPage) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	selector := page.selector
	if a.Revision != "" && selector == "app=istiod" {
		selector += ",istio.io/rev=" + a.Revision
	}
	list, err := client.Kubernetes.CoreV1().Pods(a.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return "", err
	}
	for i := range list.Items {
		if list.Items[i].Status.Phase == corev1.PodRunning {
			return list.Items[i].Name, nil
		}
	}
	return "", fmt.Errorf("no running pod with the labels %s in namespace %s (--istioNamespace)", selector, a.Namespace)
}
