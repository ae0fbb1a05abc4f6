// Package credential is the source of the Secrets and ConfigMaps that gateways show certificates of, of the Secrets that images of plugins
// are pulled with, and of the rights that decide who may have private keys.
//
// In: what each connected proxy asks for, and what plugins name ([Source.Set]), and one API server. Out: batches of events about exactly those objects,
// and about whether each proxy's service account may read Secrets in its namespace (SubjectAccessReview).
// Law: nothing is read that no proxy asks for and no plugin names, and nothing private before the proxy's account is known to have the right to it.
// By default each object is watched by its name, so that the control plane needs no more than a namespaced Role that may get, list
// and watch those Secrets. What cannot be read or asked keeps its last known state: an API server that is away takes no
// certificate from anybody, and what was never known is refused.
//
// Start with [Source] in source.go; want.go is what is asked for, watch.go how an object is followed, right.go how rights are.
// [Hold] in hold.go has plugins wait until it is known what the Secrets hold that they name.
package credential
