// Package revision reads and writes the injection webhooks of control plane revisions: which
// revision injects a pod, and the tags of revisions, for pilotctl check-inject, tag and revision.
//
// A revision has a MutatingWebhookConfiguration with the label istio.io/rev. A tag is another one,
// with the label istio.io/tag too: it injects the namespaces and pods that name the tag, by the
// same control plane. The input is a Kubernetes client, the output a list of [Configuration] or
// verdicts.
//
// Invariants: reading writes nothing; a tag never replaces a configuration that is no tag.
//
// Start reading with [List].
package revision
