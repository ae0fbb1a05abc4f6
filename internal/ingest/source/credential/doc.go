// Package credential is the source of Secrets and ConfigMaps with certificates of gateways, of pull
// Secrets for Wasm images, and of the permission of service accounts to read Secrets.
//
// The inputs are the objects that each connected proxy requests or that plugins name
// ([Source.SetWant]), and an API server. The outputs are batches of events about exactly these
// objects, and about whether each proxy's service account may list Secrets in its namespace
// (SubjectAccessReview).
//
// Objects are read only if a proxy requests them or a plugin names them. Private ones are read only
// after the permission of the proxy's account is known. By default each object is watched by name,
// so a namespaced Role with get, list and watch on these Secrets is enough for the control plane.
// If the API server is unreachable, the last known state stays in use. A permission that was never
// known is treated as denied.
//
// Start reading with [Source] in source.go. want.go defines the requested Secrets, watch.go reads
// objects, and access.go reads permissions. [SecretHold] in hold.go delays plugins until their
// Secrets have been read.
package credential
