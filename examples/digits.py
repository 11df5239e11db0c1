"""Trains a small network on scikit-learn's handwritten digits, and shows the loss beside what it cost the machine."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

import metrana

SECONDS = 12.0
BATCH = 32


def main() -> None:
    images, labels = load_digits(return_X_y=True)
    x_train, x_test, y_train, y_test = train_test_split(images / 16.0, labels, test_size=0.25, random_state=0)
    rng = np.random.default_rng(0)
    model = MLPClassifier(hidden_layer_sizes=(256, 128), learning_rate_init=3e-4, random_state=0)

    with metrana.init(
        run_name="digits",
        config={"hidden": [256, 128], "lr": 3e-4, "batch": BATCH},
        tags=["example"],
        system_metrics_interval_secs=1.0,
    ) as run:
        metrana.log_attributes({"dataset": "scikit-learn digits", "images": len(x_train)})
        start, epoch = time.monotonic(), 0
        while time.monotonic() - start < SECONDS:
            order = rng.permutation(len(x_train))
            for first in range(0, len(order), BATCH):
                batch = order[first : first + BATCH]
                model.partial_fit(x_train[batch], y_train[batch], classes=np.arange(10))
                metrana.log("loss", model.loss_)
            metrana.log("accuracy", model.score(x_test, y_test), step=epoch)
            epoch += 1
        accuracy = model.score(x_test, y_test)
        print(f"{epoch} epochs, accuracy {accuracy:.3f} on {len(x_test)} unseen images\n", flush=True)

    show = [sys.executable, "-m", "metrana", "show", run.id, "loss", "accuracy", "system/cpu/*", "system/memory/*"]
    subprocess.run(show, check=True)


if __name__ == "__main__":
    main()
