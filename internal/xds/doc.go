// Package xds groups the delivery of configuration to proxies: the protocol machine of one stream
// (stream), the withholding of resources that proxies refuse (quarantine), the computation and
// ordering of pushes (push), the gRPC server (server) and the feed of config objects for other
// control planes (feed).
//
// It has no code of its own. A push goes from push to stream to server; start with push.
package xds
