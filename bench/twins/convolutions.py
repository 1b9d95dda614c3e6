"""ResNet-50 and MobileNetV2 in torch, as mindcv has them in MindSpore."""

from __future__ import annotations

from torch import Tensor, nn

_STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
_INVERTED = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


class Bottleneck(nn.Module):
    """Three convolutions beside a shortcut; the middle one has the stride."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = width * 4
        self.conv1, self.bn1 = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = (
            nn.Conv2d(width, width, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(width),
        )
        self.conv3, self.bn3 = nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU()
        self.down_sample = None
        if stride != 1 or inputs != outputs:
            self.down_sample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn3(self.conv3(self.relu(self.bn2(self.conv2(y)))))
        return self.relu(y + (x if self.down_sample is None else self.down_sample(x)))


class ResNet50(nn.Module):
    """Logits [batch, 1000] of images [batch, 3, 224, 224]."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, padding=3, bias=False), nn.BatchNorm2d(64)
        self.relu = nn.ReLU()
        self.max_pool = nn.MaxPool2d(
            3, 2, ceil_mode=True
        )  # what pad_mode="same" is for these sizes
        inputs = 64
        for number, (width, count, stride) in enumerate(_STAGES, 1):
            blocks = [
                Bottleneck(inputs if i == 0 else width * 4, width, stride if i == 0 else 1)
                for i in range(count)
            ]
            setattr(self, f"layer{number}", nn.Sequential(*blocks))
            inputs = width * 4
        self.classifier = nn.Linear(inputs, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = self.max_pool(self.relu(self.bn1(self.conv1(x))))
        for number in range(1, len(_STAGES) + 1):
            x = getattr(self, f"layer{number}")(x)
        return self.classifier(x.mean(dim=(2, 3)))


def _unit(
    inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1
) -> list[nn.Module]:
    convolution = nn.Conv2d(
        inputs, outputs, size, stride, padding=size // 2, groups=groups, bias=False
    )
    return [convolution, nn.BatchNorm2d(outputs), nn.ReLU6()]


class InvertedResidual(nn.Module):
    """Wider, depthwise, narrower, beside a shortcut where sizes agree."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = inputs * expansion
        self.shortcut = stride == 1 and inputs == outputs
        wider = _unit(inputs, hidden, 1) if expansion != 1 else []
        depthwise = _unit(hidden, hidden, 3, stride, groups=hidden)
        self.layers = nn.Sequential(*wider, *depthwise, *_unit(hidden, outputs, 1)[:2])

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x) if self.shortcut else self.layers(x)


class MobileNetV2(nn.Module):
    """Logits [batch, 1000] of images [batch, 3, 224, 224]."""

    def __init__(self) -> None:
        super().__init__()
        features, inputs = _unit(3, 32, 3, 2), 32
        for expansion, outputs, count, stride in _INVERTED:
            for index in range(count):
                features.append(
                    InvertedResidual(inputs, outputs, stride if index == 0 else 1, expansion)
                )
                inputs = outputs
        self.features = nn.Sequential(*features, *_unit(inputs, 1280, 1))
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, 1000))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x).mean(dim=(2, 3)))
