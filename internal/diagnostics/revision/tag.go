package revision

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"istio.io/api/label"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
)

// managedLabel is the label of pods of gateways that the control plane deploys.
const managedLabel = "gateway.istio.io/managed"

// selects reports whether a selector matches the labels in set. A nil selector matches all. It
// returns an error for a malformed selector.
func selects(s *metav1.LabelSelector, set map[string]string) (bool, error) {
	if s == nil {
		return true, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && selector.Matches(labels.Set(set)), err
}

// NewTag returns the webhook configuration of a tag for a revision, with the client configuration
// of the revision's own webhooks. namespace, the control plane's, is a part of its name. It returns
// an error if the revision is not installed or has no webhook for injection. The tag must be a
// label value, and must not be the name of an installed revision, except DefaultRevision.
func NewTag(list []Configuration, tag, revision, namespace string) (*admissionv1.MutatingWebhookConfiguration, error) {
	if faults := validation.IsValidLabelValue(tag); len(faults) > 0 || tag == "" {
		return nil, fmt.Errorf("tag %q: want a label value: %s", tag, strings.Join(faults, "; "))
	}
	var own *Configuration
	var revisions []string
	for i := range list {
		c := &list[i]
		if c.Tag != "" {
			continue
		}
		revisions = append(revisions, c.Revision)
		if c.Revision == revision {
			own = c
		}
		if c.Revision == tag && tag != DefaultRevision {
			return nil, fmt.Errorf("tag %q: there is a revision of this name", tag)
		}
	}
	if own == nil {
		return nil, fmt.Errorf("revision %q has no injection webhooks; installed are: %s", revision,
			strings.Join(revisions, ", "))
	}
	base := slices.IndexFunc(own.object.Webhooks,
		func(w admissionv1.MutatingWebhook) bool { return strings.HasSuffix(w.Name, injectorSuffix) })
	if base < 0 {
		return nil, fmt.Errorf("webhook configuration %s has no webhook *%s", own.Name, injectorSuffix)
	}
	o := &admissionv1.MutatingWebhookConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "MutatingWebhookConfiguration"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "istio-revision-tag-" + tag + "-" + namespace,
			Labels: map[string]string{"app": "sidecar-injector", label.IoIstioRev.Name: revision,
				label.IoIstioTag.Name: tag},
		},
	}
	for _, s := range tagSelectors(tag) {
		w := own.object.Webhooks[base].DeepCopy()
		w.Name = s.prefix + injectorSuffix
		w.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: s.namespace}
		w.ObjectSelector = &metav1.LabelSelector{MatchExpressions: s.pod}
		o.Webhooks = append(o.Webhooks, *w)
	}
	return o, nil
}

// selectors are the selectors of one webhook.
type selectors struct {
	prefix         string
	namespace, pod []metav1.LabelSelectorRequirement
}

// tagSelectors returns the selectors of the webhooks of a tag, as the chart has them. The tag
// default also selects what asks for injection without naming a revision.
func tagSelectors(tag string) []selectors {
	const (
		in     = metav1.LabelSelectorOpIn
		notIn  = metav1.LabelSelectorOpNotIn
		exists = metav1.LabelSelectorOpExists
		absent = metav1.LabelSelectorOpDoesNotExist
	)
	is := func(key string, op metav1.LabelSelectorOperator, values ...string) metav1.LabelSelectorRequirement {
		return metav1.LabelSelectorRequirement{Key: key, Operator: op, Values: values}
	}
	type all = []metav1.LabelSelectorRequirement
	rev, inject := label.IoIstioRev.Name, label.SidecarInject.Name
	notRefused := all{is(inject, notIn, "false"), is(managedLabel, absent)}
	managed := all{is(managedLabel, exists), is(inject, in, "true")}
	list := []selectors{
		{"rev.namespace.", all{is(rev, in, tag), is(injectionLabel, absent)}, notRefused},
		{"rev.object.", all{is(rev, absent), is(injectionLabel, absent)},
			append(slices.Clone(notRefused), is(rev, in, tag))},
		{"rev.gateway.", nil, append(slices.Clone(managed), is(rev, in, tag))},
	}
	if tag == DefaultRevision {
		list = append(
			list,
			selectors{"namespace.", all{is(injectionLabel, in, "enabled")}, notRefused},
			selectors{"object.", all{is(injectionLabel, absent), is(rev, absent)},
				all{is(inject, in, "true"), is(rev, absent), is(managedLabel, absent)}},
			selectors{"gateway.", nil, append(slices.Clone(managed), is(rev, absent))},
		)
	}
	return list
}

// ErrTagExists means that a tag is set and is not to be overwritten.
var ErrTagExists = errors.New("the tag exists")

// SetTag creates the configuration o of a tag. If there is one of that name, it replaces it if
// overwrite is set, and otherwise returns ErrTagExists. It returns another error if that
// configuration is no tag.
func SetTag(ctx context.Context, client kubernetes.Interface, o *admissionv1.MutatingWebhookConfiguration,
	overwrite bool) error {
	configurations := client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	old, err := configurations.Get(ctx, o.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = configurations.Create(ctx, o, metav1.CreateOptions{})
		return err
	case err != nil:
		return err
	case old.Labels[label.IoIstioTag.Name] == "":
		return fmt.Errorf("webhook configuration %s exists and is no tag", o.Name)
	case !overwrite:
		return fmt.Errorf("%w, for revision %s", ErrTagExists, old.Labels[label.IoIstioRev.Name])
	}
	o = o.DeepCopy()
	o.ResourceVersion = old.ResourceVersion
	_, err = configurations.Update(ctx, o, metav1.UpdateOptions{})
	return err
}

// RemoveTag deletes the configurations in list that have the tag. It stops at the first error, and
// returns an error if no configuration has the tag. A configuration that is gone already is no
// error. The empty tag is never found.
func RemoveTag(ctx context.Context, client kubernetes.Interface, list []Configuration, tag string) error {
	removed := false
	for i := range list {
		if list[i].Tag != tag || tag == "" {
			continue
		}
		removed = true
		err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Delete(ctx, list[i].Name,
			metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("remove tag %q: %w", tag, err)
		}
	}
	if !removed {
		return fmt.Errorf("there is no tag %q", tag)
	}
	return nil
}
