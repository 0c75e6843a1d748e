// SPDX-License-Identifier: Apache-2.0
// Holds nothing: this library exists for those it is linked with.
