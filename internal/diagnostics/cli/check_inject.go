package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/meshpilot/meshpilot/internal/diagnostics/revision"
	"github.com/meshpilot/meshpilot/internal/kube"
)

// withCluster calls run with the clients of the kubeconfig's cluster, and returns its error.
// Without a valid kubeconfig it returns an error and does not call run. The context of run ends
// after clusterTimeout.
func (a *pageClient) withCluster(c *cobra.Command, run func(ctx context.Context, client *kube.Client) error) error {
	client, err := a.options().Client()
	if err != nil {
		return err
	}
	defer client.HTTP.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(c.Context(), clusterTimeout)
	defer cancel()
	return run(ctx, client)
}

// checkInject returns the command that shows which webhooks inject a pod, and why. The pod is
// named, made from a Deployment or made with --labels (podToInject). The command ends with a
// *CheckError if no webhook injects the pod.
func (a *pageClient) checkInject() *cobra.Command {
	var selector string
	c := &cobra.Command{
		Use: "check-inject [POD | deployment/NAME]", Args: cobra.MaximumNArgs(1), Aliases: []string{"check-injection"},
		Short: "Show which injection webhooks select a pod, and why",
		Long: "check-inject evaluates the selectors of all injection webhooks for a pod, a Deployment's pods, or pods with the labels of\n" +
			"--labels in --namespace. If several webhooks select a pod, the first one by name injects it.\n\n" +
			"The exit code is 5 if no webhook selects the pod.",
		Example: "  pilotctl check-inject details-v1-6d5b.bookinfo\n  pilotctl check-inject deployment/details-v1 -n bookinfo\n" +
			"  pilotctl check-inject -n bookinfo --labels app=details",
		RunE: func(c *cobra.Command, args []string) error {
			return a.withCluster(c, func(ctx context.Context, client *kube.Client) error {
				p, err := a.podToInject(ctx, client, args, selector)
				if err != nil {
					return err
				}
				namespace, err := client.Kubernetes.CoreV1().Namespaces().Get(ctx, p.Namespace, metav1.GetOptions{})
				if err != nil {
					return err
				}
				list, err := revision.List(ctx, client.Kubernetes)
				if err != nil {
					return err
				}
				verdicts, err := revision.Check(list, namespace.Labels, p.Labels, p.Spec.HostNetwork)
				if err != nil {
					return err
				}
				return a.printVerdicts(c, verdicts)
			})
		},
	}
	c.Flags().StringVarP(&selector, "labels", "l", "", "labels of a pod that need not exist")
	return c
}

// podToInject returns the pod that args name, or one made from the template of a Deployment
// (deployment/NAME). Without args it returns one made with the labels of selector. The namespace is
// the name's, else --namespace, else "default". It returns an error for another kind, an invalid
// selector or a missing object, or if not exactly one of args and selector is set.
func (a *pageClient) podToInject(ctx context.Context, client *kube.Client, args []string, selector string) (*corev1.Pod,
	error) {
	switch {
	case len(args) == 0 && selector == "":
		return nil, errors.New("name a pod or a Deployment, or its labels with --labels")
	case len(args) == 0:
		set, err := labels.ConvertSelectorToLabelsMap(selector)
		if err != nil {
			return nil, fmt.Errorf("--labels: %w", err)
		}
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: cmp.Or(a.namespace, defaultNamespace),
			Labels: set}}, nil
	case selector != "":
		return nil, errors.New("name a pod, or --labels")
	}
	kind, name, isKind := strings.Cut(args[0], "/")
	if !isKind {
		name = args[0]
	}
	name, namespace := a.objectName(name)
	if !isKind || kind == "pod" || kind == "pods" {
		return client.Kubernetes.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	}
	if kind != "deployment" && kind != "deployments" && kind != "deploy" {
		return nil, fmt.Errorf("%q: want a pod, or deployment/NAME", args[0])
	}
	d, err := client.Kubernetes.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	template := d.Spec.Template
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Labels: template.Labels},
		Spec: template.Spec}, nil
}

// objectName returns the name and namespace of NAME[.NAMESPACE]; the default is --namespace, else
// "default".
func (a *pageClient) objectName(text string) (name, namespace string) {
	name, namespace, _ = strings.Cut(text, ".")
	return name, cmp.Or(namespace, a.namespace, defaultNamespace)
}

// printVerdicts prints the list in the format of --output; a table has a line for each webhook
// configuration, or one text if none is installed. It returns an error of printing, or else a
// *CheckError if none injects the pod, also for an empty list.
func (a *pageClient) printVerdicts(c *cobra.Command, list []revision.Verdict) error {
	x := answer{whole: list, header: "WEBHOOK\tREVISION\tINJECTED\tREASON", none: "no injection webhook is installed"}
	injected := false
	for _, v := range list {
		mark := "no"
		if v.Injected {
			mark, injected = "yes", true
		}
		x.rows = append(x.rows, []string{v.Name, revisionText(v.Configuration), mark, v.Reason})
	}
	if err := a.printAnswer(c, x); err != nil {
		return err
	}
	if !injected {
		return &CheckError{Failed: 1, reason: "no webhook injects the pod"}
	}
	return nil
}

// revisionText returns the revision of a configuration, with its tag.
func revisionText(c revision.Configuration) string {
	if c.Tag == "" {
		return c.Revision
	}
	return c.Revision + " (tag " + c.Tag + ")"
}
