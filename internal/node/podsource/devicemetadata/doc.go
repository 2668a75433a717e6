// Package devicemetadata reads the files in which DRA drivers describe the devices of a claim
// (KEP-5304):
//
//	{kubeletDir}/plugins/{driver}/dra-device-metadata/{namespace}_{claim}/{request}/metadata.json
//
// A driver that writes them does so before the kubelet creates the sandbox. They need no API
// server. They have the attributes of each device, and the request that it was allocated for.
// Drivers opt in, so a claim without files is no error.
//
// Drivers write these files, so they can be anything. Names from elsewhere never leave the
// directory of plugins, and neither does a link. Only regular files are read, at most
// claims.MaxMetadata bytes of each and maxRequests for each claim and driver. A read cannot be
// interrupted: a call returns when its context ends, and while maxReads reads have not ended,
// further calls fail at once.
package devicemetadata
