// Package devicemetadata reads the files in which DRA drivers describe the devices of a claim
// (KEP-5304):
//
//	{kubeletDir}/plugins/{driver}/dra-device-metadata/{namespace}_{claim}/{request}/metadata.json
//
// A driver that writes these files does so before the kubelet creates the sandbox. They have the
// attributes of each device, and the request that it was allocated for, and can be read without an
// API server. Drivers opt in, so a claim without files is not an error.
//
// Drivers write these files, so they can have any content. Names from other sources never lead out
// of the directory of plugins, and neither does a link. Only regular files are read, at most
// claims.MaxMetadata bytes of each and maxRequests for each claim and driver. A read cannot be
// interrupted: a call returns when its context ends, and while maxReads reads have not ended,
// further calls fail at once.
package devicemetadata
