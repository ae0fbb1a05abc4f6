package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"istio.io/api/label"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/diagnostics/connect"
	"github.com/meshpilot/meshpilot/internal/diagnostics/revision"
	"github.com/meshpilot/meshpilot/internal/kube"
)

// clusterTimeout bounds commands that read or write objects of a cluster.
const clusterTimeout = time.Minute

// tagCommand returns the commands for the tags of revisions.
func (a *pageClient) tagCommand() *cobra.Command {
	return groupCommand(&cobra.Command{Use: "tag", Short: "List, set and remove the tags of revisions"},
		a.tagList(), followFlags(a.tagSet(), revisionFlag), followFlags(a.tagGenerate(), revisionFlag), a.tagRemove())
}

// taggedRevision is a row of tag list.
type taggedRevision struct {
	Tag        string   `json:"tag"`
	Revision   string   `json:"revision"`
	Namespaces []string `json:"namespaces"`
}

// listRevisions reads the injection webhook configurations (mutating, not validating) of
// revisions and tags, and all namespaces, from the API server. An error of either is returned
// without results.
func listRevisions(ctx context.Context, client *kube.Client) ([]revision.Configuration, []corev1.Namespace, error) {
	list, err := revision.List(ctx, client.Kubernetes)
	if err != nil {
		return nil, nil, err
	}
	namespaces, err := client.Kubernetes.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, err
	}
	return list, namespaces.Items, nil
}

// tagList returns the command that lists the tags with the namespaces that use them. Revisions
// without a tag are left out.
func (a *pageClient) tagList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"show"}, Args: cobra.NoArgs,
		Short: "List the tags, their revisions and the namespaces that use them",
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withCluster(c, func(ctx context.Context, client *kube.Client) error {
				list, namespaces, err := listRevisions(ctx, client)
				if err != nil {
					return err
				}
				tags := []taggedRevision{}
				x := answer{header: "TAG\tREVISION\tNAMESPACES", none: "no tags"}
				for _, o := range list {
					if o.Tag != "" {
						t := taggedRevision{o.Tag, o.Revision, revision.Namespaces(namespaces, o.Tag)}
						tags = append(tags, t)
						x.rows = append(x.rows, []string{t.Tag, t.Revision, strings.Join(t.Namespaces, ",")})
					}
				}
				x.whole = tags
				return a.printAnswer(c, x)
			})
		},
	}
}

// newTag returns the webhook configuration of a tag for --revision. It returns an error if
// --revision is not set or not installed, or if revision.NewTag refuses the tag. It creates nothing
// in the cluster.
func (a *pageClient) newTag(ctx context.Context, client *kube.Client,
	tag string) (*admissionv1.MutatingWebhookConfiguration, error) {
	if a.Revision == "" {
		return nil, errors.New("--revision is required: the revision that the tag names")
	}
	list, err := revision.List(ctx, client.Kubernetes)
	if err != nil {
		return nil, err
	}
	return revision.NewTag(list, tag, a.Revision, a.Namespace)
}

// tagSet returns the command that writes the webhook configuration of a tag for --revision, which
// is required, to the cluster. Without --overwrite, a tag that exists is an error.
func (a *pageClient) tagSet() *cobra.Command {
	overwrite := false
	c := &cobra.Command{
		Use: "set TAG", Args: cobra.ExactArgs(1), Short: "Create a tag of a revision, or let it name another revision",
		Long: "tag set creates the injection webhooks of a tag: pods of namespaces with the label istio.io/rev=TAG are injected by the\n" +
			"revision of --revision. The tag default also applies to namespaces with istio-injection=enabled. Running pods keep their\n" +
			"sidecar until they are restarted.",
		Example: "  pilotctl tag set prod --revision 1-31\n  pilotctl tag set prod --revision 1-32 --overwrite",
		RunE: func(c *cobra.Command, args []string) error {
			return a.withCluster(c, func(ctx context.Context, client *kube.Client) error {
				o, err := a.newTag(ctx, client, args[0])
				if err != nil {
					return err
				}
				err = revision.SetTag(ctx, client.Kubernetes, o, overwrite)
				if errors.Is(err, revision.ErrTagExists) {
					return fmt.Errorf("tag %q: %w; --overwrite changes it", args[0], err)
				}
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(c.OutOrStdout(),
					"tag %q names revision %q; pods of namespaces with the label istio.io/rev=%s are injected by it\n",
					args[0], a.Revision, args[0])
				return err
			})
		},
	}
	c.Flags().BoolVar(&overwrite, "overwrite", false, "change a tag that exists")
	return c
}

// tagGenerate returns the command that prints the webhook configuration of a tag. --revision is
// required.
func (a *pageClient) tagGenerate() *cobra.Command {
	return &cobra.Command{
		Use: "generate TAG", Args: cobra.ExactArgs(1),
		Short:   "Print the webhook configuration of a tag, without creating it",
		Example: "  pilotctl tag generate prod --revision 1-31 | kubectl apply -f -",
		RunE: func(c *cobra.Command, args []string) error {
			return a.withCluster(c, func(ctx context.Context, client *kube.Client) error {
				o, err := a.newTag(ctx, client, args[0])
				if err != nil {
					return err
				}
				text, err := yaml.Marshal(o)
				if err != nil {
					return err
				}
				_, err = c.OutOrStdout().Write(text)
				return err
			})
		},
	}
}

// tagRemove returns the command that deletes a tag. A tag that namespaces use is refused without
// --skip-confirmation. A tag that does not exist is the error of revision.RemoveTag.
func (a *pageClient) tagRemove() *cobra.Command {
	force := false
	c := &cobra.Command{
		Use: "remove TAG", Aliases: []string{"delete"}, Args: cobra.ExactArgs(1), Short: "Remove a tag",
		Long: "tag remove deletes the injection webhooks of a tag. It refuses a tag that namespaces use, whose new pods would have no\n" +
			"sidecar, unless --skip-confirmation is set.",
		RunE: func(c *cobra.Command, args []string) error {
			return a.withCluster(c, func(ctx context.Context, client *kube.Client) error {
				list, namespaces, err := listRevisions(ctx, client)
				if err != nil {
					return err
				}
				exists := slices.ContainsFunc(list, func(o revision.Configuration) bool { return o.Tag == args[0] })
				if used := revision.Namespaces(namespaces, args[0]); exists && len(used) > 0 && !force {
					return fmt.Errorf("tag %q is used by the namespaces %s; --skip-confirmation removes it nevertheless", args[0], strings.Join(used, ", "))
				}
				if err := revision.RemoveTag(ctx, client.Kubernetes, list, args[0]); err != nil {
					return err
				}
				_, err = fmt.Fprintf(c.OutOrStdout(), "tag %q is removed\n", args[0])
				return err
			})
		},
	}
	c.Flags().BoolVarP(&force, "skip-confirmation", "y", false, "remove a tag that namespaces use")
	return c
}

// installedRevision is what belongs to a revision.
type installedRevision struct {
	Revision   string   `json:"revision"`
	Tags       []string `json:"tags"`
	Pods       []string `json:"pods"`
	Images     []string `json:"images"`
	Webhooks   []string `json:"webhooks"`
	Namespaces []string `json:"namespaces"`
}

// revisionCommand returns the command "revision" with its subcommands "list" and "describe
// REVISION", which print tags, pods, images and namespaces of revisions. Describing a revision that
// is not installed is an error.
func (a *pageClient) revisionCommand() *cobra.Command {
	list := &cobra.Command{
		Use: "list", Args: cobra.NoArgs, Short: "List the installed revisions with their tags, pods and namespaces",
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withRevisions(c, func(all []installedRevision) error {
				x := answer{whole: all, header: "REVISION\tTAGS\tPODS\tIMAGES\tNAMESPACES",
					none: "no revision is installed"}
				for _, r := range all {
					x.rows = append(x.rows, []string{
						r.Revision, strings.Join(r.Tags, ","), strconv.Itoa(len(r.Pods)), strings.Join(r.Images, ","),
						strings.Join(r.Namespaces, ","),
					})
				}
				return a.printAnswer(c, x)
			})
		},
	}
	one := &cobra.Command{
		Use: "describe REVISION", Args: cobra.ExactArgs(1),
		Short: "Show the tags, webhooks, pods and namespaces of a revision",
		RunE: func(c *cobra.Command, args []string) error {
			return a.withRevisions(c, func(all []installedRevision) error {
				i := slices.IndexFunc(all, func(r installedRevision) bool { return r.Revision == args[0] })
				if i < 0 {
					return fmt.Errorf("revision %q is not installed", args[0])
				}
				r := all[i]
				x := answer{whole: r, header: "REVISION\t" + r.Revision}
				for _, row := range []struct {
					title string
					list  []string
				}{
					{"TAGS", r.Tags},
					{"PODS", r.Pods},
					{"IMAGES", r.Images},
					{"WEBHOOKS", r.Webhooks},
					{"NAMESPACES", r.Namespaces},
				} {
					x.rows = append(x.rows, []string{row.title, strings.Join(row.list, ", ")})
				}
				return a.printAnswer(c, x)
			})
		},
	}
	return groupCommand(&cobra.Command{Use: "revision", Short: "List the revisions of the control plane"}, list, one)
}

// withRevisions calls run with the revisions that have webhooks or running pods, sorted by name,
// and returns its error. The namespaces of a revision include the namespaces of its tags. A control
// plane without pods is no error.
func (a *pageClient) withRevisions(c *cobra.Command, run func([]installedRevision) error) error {
	return a.withCluster(c, func(ctx context.Context, client *kube.Client) error {
		list, namespaces, err := listRevisions(ctx, client)
		if err != nil {
			return err
		}
		pods, err := connect.Pods(ctx, client, a.Namespace, "")
		if err != nil && !errors.Is(err, connect.ErrNoPods) {
			return err
		}
		all := revisionsOf(list, pods)
		for i := range all {
			r := &all[i]
			for _, name := range append([]string{r.Revision}, r.Tags...) {
				r.Namespaces = append(r.Namespaces, revision.Namespaces(namespaces, name)...)
			}
			slices.Sort(r.Namespaces)
			r.Namespaces = slices.Compact(r.Namespaces)
		}
		return run(all)
	})
}

// revisionsOf returns the revisions of webhook configurations and pods, sorted by name, with their
// tags, webhooks, pods and images. It leaves Namespaces empty. A pod without the label is of the
// default revision. Each image of its containers, except init containers, is there once.
func revisionsOf(list []revision.Configuration, pods []corev1.Pod) []installedRevision {
	all := map[string]*installedRevision{}
	of := func(name string) *installedRevision {
		if all[name] == nil {
			all[name] = &installedRevision{Revision: name}
		}
		return all[name]
	}
	for _, o := range list {
		r := of(o.Revision)
		r.Webhooks = append(r.Webhooks, o.Name)
		if o.Tag != "" {
			r.Tags = append(r.Tags, o.Tag)
		}
	}
	for i := range pods {
		r := of(cmp.Or(pods[i].Labels[label.IoIstioRev.Name], revision.DefaultRevision))
		r.Pods = append(r.Pods, pods[i].Name)
		for _, container := range pods[i].Spec.Containers {
			if !slices.Contains(r.Images, container.Image) {
				r.Images = append(r.Images, container.Image)
			}
		}
	}
	sorted := []installedRevision{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		sorted = append(sorted, *all[name])
	}
	return sorted
}
